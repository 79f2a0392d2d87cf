package drivers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const manual = "../docs/high-availability.md"

// blocks are the fenced blocks of the manual in a language.
func blocks(t *testing.T, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestManual does what docs/high-availability.md says, on other ports: it starts all, looks, has another one lead and asks it
// from the programs shown in Python and JavaScript.
func TestManual(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six servers")
	}
	tr := &trio{t: t}
	var ports, addresses []string
	var primary string
	for i, documented := range []string{"26390", "26391", "26392", "6390", "6391", "6392"} {
		port := freePort(t)
		ports = append(ports, documented, port) // a replacer takes the first that fits
		if i < 3 {
			tr.sentinels = append(tr.sentinels, "127.0.0.1:"+port)
			addresses = append(addresses, fmt.Sprintf(`"10.0.0.%d", 26390`, i+1), fmt.Sprintf(`"127.0.0.1", %s`, port),
				fmt.Sprintf(`"10.0.0.%d", port: 26390`, i+1), fmt.Sprintf(`"127.0.0.1", port: %s`, port))
		} else if i == 3 {
			primary = "127.0.0.1:" + port
		}
	}
	here, there := strings.NewReplacer(ports...), strings.NewReplacer(addresses...)
	shell := blocks(t, "sh")
	dir := t.TempDir()

	start := exec.Command("sh", "-e", "-c", here.Replace(shell[0])+"\nwait\n")
	start.Dir, start.Env = dir, append(os.Environ(), "PATH="+serverDir(t)+":"+os.Getenv("PATH"))
	start.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := launch(t, start)
	go p.reap()
	t.Cleanup(func() { syscall.Kill(-start.Process.Pid, syscall.SIGKILL) }) // all that it started
	tr.met(primary)
	t.Log("all is up")

	look, err := exec.Command("sh", "-e", "-c", here.Replace(shell[1])).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, look)
	}
	_, port, _ := net.SplitHostPort(primary)
	text := strings.ReplaceAll(string(look), "\r", "")
	if !strings.Contains(text, "role:master\n") || strings.Count(text, "state=online") != 2 || !strings.HasSuffix(text, "127.0.0.1\n"+port+"\nOK\n") {
		t.Errorf("what is shown is not what the manual says:\n%s", text)
	}
	for _, s := range tr.sentinels { // the one that has it done says so in SENTINEL MASTERS, which redis-py asks, at the end
		took := tr.within(failoverWithin, "another one leads", func() bool {
			about := tr.ask(s, "SENTINEL", "MASTER", masterName)
			return strings.Contains(about, "flags:master\n") && !strings.Contains(about, "port:"+port+"\n")
		})
		t.Logf("%s says so %.1f s later", s, took.Seconds())
	}

	const before, after = "import time\nfrom redis.sentinel import Sentinel\npassword = None\n", "\nprint(allowed)\n"
	tr.prints("1\n", ".tools/python/bin/python", "-c", before+there.Replace(blocks(t, "python")[0])+after)
	t.Setenv("NODE_PATH", ".tools/node/node_modules")
	tr.prints("1\n", "node", "-e", `const Redis = require("ioredis"), password = undefined; (async () => {`+
		there.Replace(blocks(t, "js")[0])+`console.log(allowed); redis.disconnect(); })();`)
}

// prints runs a program until it prints what is wanted: on a busy machine its short timeouts run out.
func (tr *trio) prints(want string, words ...string) {
	tr.t.Helper()
	var out []byte
	defer func() {
		if tr.t.Failed() {
			tr.t.Logf("%s: %s (`make tools` installs what the tests need)", words[0], out)
		}
	}()
	tr.within(startWithin, words[0]+" is answered", func() bool {
		out, _ = exec.Command(words[0], words[1:]...).CombinedOutput()
		return string(out) == want
	})
}
