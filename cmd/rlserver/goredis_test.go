package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// decisionOf reads what go-redis made of a decision: five integers.
func decisionOf(v any) ([]int64, error) {
	items, ok := v.([]any)
	if !ok || len(items) != 5 {
		return nil, fmt.Errorf("not a decision: %#v", v)
	}
	var d []int64
	for _, item := range items {
		n, ok := item.(int64)
		if !ok {
			return nil, fmt.Errorf("not a decision: %#v", v)
		}
		d = append(d, n)
	}
	return d, nil
}

// openRedis makes a client that is closed when the test ends.
func openRedis(t *testing.T, o *redis.Options) *redis.Client {
	t.Helper()
	o.MaxRetries = -1 // a retry might debit twice
	rdb := redis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// TestGoRedis: the driver's ways to send a command, over both protocols.
func TestGoRedis(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx := t.Context()
			rdb := openRedis(t, &redis.Options{Addr: p.addr, Protocol: protocol, ClientName: "worker"})
			key := fmt.Sprintf("key:%d", protocol)
			got, err := decisionOf(rdb.Do(ctx, "RL.ACQUIRE", key, "1/1h", 10).Val())
			if want := []int64{1, 0, 9, 3600000, 10}; err != nil || !slices.Equal(got, want) {
				t.Errorf("Do: %v, %v; want %v", got, err, want)
			}
			slice, err := rdb.Do(ctx, "rl.acquire", key, "1/1h", 10, "COST", 3).Int64Slice()
			if err != nil || slice[2] != 6 {
				t.Errorf("Int64Slice: %v, %v", slice, err)
			}
			if err := rdb.Do(ctx, "RL.ACQUIRE", key, "1/1h", "ten").Err(); err == nil || !strings.Contains(err.Error(), "burst") {
				t.Errorf("a bad burst: %v", err)
			}
			if err := rdb.Do(ctx, "RL.PEEK", "absent").Err(); err != redis.Nil {
				t.Errorf("RL.PEEK of an absent key: %v, want redis.Nil", err)
			}
			if err := rdb.Do(ctx, "RL.GET", "absent").Err(); err != redis.Nil {
				t.Errorf("RL.GET of an absent key: %v, want redis.Nil", err)
			}
			checkPipeline(t, rdb, key)
			if got := rdb.Exists(ctx, key, key, "absent").Val(); got != 2 {
				t.Errorf("Exists: %d", got)
			}
			if got := rdb.Type(ctx, key).Val(); got != "hash" {
				t.Errorf("Type: %q", got)
			}
			if got := rdb.PTTL(ctx, key).Val().Milliseconds(); got <= 7*3600000 || got > 7*3600000+deadlineMargin+2*1000 {
				t.Errorf("PTTL: %d ms", got)
			}
			if got := rdb.Del(ctx, key).Val(); got != 1 {
				t.Errorf("Del: %d", got)
			}
			if got := rdb.ClientGetName(ctx).Val(); got != "worker" {
				t.Errorf("ClientGetName: %q", got)
			}
			if got := rdb.Info(ctx, "server").Val(); !strings.Contains(got, "redis_version:7.") {
				t.Errorf("Info: %q", got)
			}
			if got, err := rdb.Time(ctx).Result(); err != nil || got.Year() < 2026 {
				t.Errorf("Time: %v, %v", got, err)
			}
			table, err := rdb.Command(ctx).Result()
			if err != nil || table["rl.acquire"] == nil || table["rl.acquire"].FirstKeyPos != 1 {
				t.Errorf("Command: %v, %v", table["rl.acquire"], err)
			}
			if n, list := rdb.Do(ctx, "COMMAND", "COUNT").Val(), rdb.Do(ctx, "COMMAND", "LIST").Val().([]any); n != int64(len(list)) || len(list) != len(table) {
				t.Errorf("COMMAND COUNT %v, COMMAND LIST %d, COMMAND %d", n, len(list), len(table))
			}
		})
	}
}

// checkPipeline sends a pipeline in which one command fails: the others are
// answered in order.
func checkPipeline(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	ctx := t.Context()
	cmds, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range 3 {
			pipe.Do(ctx, "RL.ACQUIRE", key, "1/1h", 10)
		}
		pipe.Do(ctx, "RL.ACQUIRE", key)
		pipe.Do(ctx, "RL.PEEK", key, "1/1h", 10, "COST", 0)
		return nil
	})
	if err == nil || len(cmds) != 5 || cmds[3].Err() != err {
		t.Fatalf("pipeline: %v with %d answers", err, len(cmds))
	}
	for i, want := range []int64{5, 4, 3, -1, 3} {
		if want < 0 {
			continue
		}
		if got, err := decisionOf(cmds[i].(*redis.Cmd).Val()); err != nil || got[2] != want {
			t.Errorf("pipeline, command %d: %v, %v; want %d remaining", i, got, err, want)
		}
	}
}

// TestGoRedisConnectsQuietly: the driver's default greeting gets one error, for
// a command of a commercial service that it knows to do without.
func TestGoRedisConnectsQuietly(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	rdb := openRedis(t, &redis.Options{Addr: p.addr})
	ctx := t.Context()
	if got := rdb.Ping(ctx).Val(); got != "PONG" {
		t.Fatalf("Ping: %q", got)
	}
	rdb.Do(ctx, "RL.ACQUIRE", "k", 10, 20)
	if n := infoInt(t, dial(t, p.addr), "total_error_replies"); n > 1 {
		t.Errorf("%d error replies; only CLIENT MAINT_NOTIFICATIONS may get one", n)
	}
	info := rdb.ClientInfo(ctx).Val()
	if info == nil || info.LibName == "" || info.LibVer == "" {
		t.Errorf("the driver's name did not arrive: %+v", info)
	}
}

// infoInt reads one figure of INFO.
func infoInt(t testing.TB, c *testConn, field string) int64 {
	t.Helper()
	n, err := infoField(c.do("INFO", "everything").text, field)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// infoField finds a figure in the text of INFO.
func infoField(text, field string) (int64, error) {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", field)
}

// TestGoRedisHotKey: many callers race for one key. Exactly its burst is
// admitted, and each admission sees a different remainder.
func TestGoRedisHotKey(t *testing.T) {
	t.Parallel()
	const callers, calls, burst = 50, 10000, 1000
	p := start(t, t.TempDir())
	for _, pipelined := range []bool{false, true} {
		t.Run(map[bool]string{false: "single", true: "pipelined"}[pipelined], func(t *testing.T) {
			rdb := openRedis(t, &redis.Options{Addr: p.addr, PoolSize: callers})
			key := fmt.Sprintf("hot:%t", pipelined)
			seen := make([][]int64, callers)
			var race sync.WaitGroup
			for i := range callers {
				race.Go(func() {
					var err error
					if seen[i], err = admissions(t.Context(), rdb, key, burst, calls/callers, pipelined); err != nil {
						t.Error(err)
					}
				})
			}
			race.Wait()
			remaining := slices.Concat(seen...)
			slices.Sort(remaining)
			if len(remaining) != burst {
				t.Fatalf("%d of %d calls were admitted, the burst is %d", len(remaining), calls, burst)
			}
			for i, r := range remaining {
				if r != int64(i) {
					t.Fatalf("the remainders, sorted, have %d at %d: each from 0 to %d must be seen once", r, i, burst-1)
				}
			}
		})
	}
}

// admissions makes n calls and returns what remained after each that passed.
func admissions(ctx context.Context, rdb *redis.Client, key string, burst, n int, pipelined bool) (remaining []int64, err error) {
	size := 1
	if pipelined {
		size = 20
	}
	for ; n > 0; n -= size {
		cmds, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range size {
				pipe.Do(ctx, "RL.ACQUIRE", key, "1/30d", burst)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, cmd := range cmds {
			d, err := decisionOf(cmd.(*redis.Cmd).Val())
			switch {
			case err != nil:
				return nil, err
			case d[0] == 1:
				remaining = append(remaining, d[2])
			case d[1] <= 0 || d[2] != 0:
				return nil, fmt.Errorf("a denial without a wait: %v", d)
			}
		}
	}
	return remaining, nil
}

// TestGoRedisManyKeys: keys do not touch each other.
func TestGoRedisManyKeys(t *testing.T) {
	t.Parallel()
	const keys, batch = 20000, 1000
	p := start(t, t.TempDir())
	rdb := openRedis(t, &redis.Options{Addr: p.addr})
	ctx := t.Context()
	for round := range 3 {
		for from := 0; from < keys; from += batch {
			cmds, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i := from; i < from+batch; i++ {
					pipe.Do(ctx, "RL.ACQUIRE", fmt.Sprintf("user:%d", i), "1/30d", 2+i%5)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, cmd := range cmds {
				burst := int64(2 + (from+i)%5)
				d, err := decisionOf(cmd.(*redis.Cmd).Val())
				if err != nil || d[2] != max(burst-int64(round)-1, 0) || (d[0] == 1) != (burst > int64(round)) || d[4] != burst {
					t.Fatalf("round %d, user:%d with burst %d: %v, %v", round, from+i, burst, d, err)
				}
			}
		}
	}
	if got := rdb.DBSize(ctx).Val(); got != keys {
		t.Errorf("DBSIZE %d, want %d", got, keys)
	}
}

// TestGoRedisPassword: the driver logs in over both protocols, and is told so
// when it does not.
func TestGoRedisPassword(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--requirepass", "s3cret")
	ctx := t.Context()
	for _, protocol := range []int{2, 3} {
		for _, user := range []string{"", "default"} {
			rdb := openRedis(t, &redis.Options{Addr: p.addr, Protocol: protocol, Username: user, Password: "s3cret"})
			if got, err := rdb.Ping(ctx).Result(); err != nil || got != "PONG" {
				t.Errorf("RESP%d, user %q: %q, %v", protocol, user, got, err)
			}
		}
		for _, c := range []struct{ user, password, want string }{
			{"", "", "NOAUTH"}, {"", "wrong", "WRONGPASS"}, {"somebody", "s3cret", "WRONGPASS"},
		} {
			rdb := openRedis(t, &redis.Options{Addr: p.addr, Protocol: protocol, Username: c.user, Password: c.password})
			if err := rdb.Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("RESP%d, user %q with password %q: %v, want %s", protocol, c.user, c.password, err, c.want)
			}
		}
	}
}
