# `make test` is the one test command: it installs what the tests need and runs
# everything.

.PHONY: test check bench compare soak attack tools packages

test: tools
	go vet ./...
	go test -timeout 15m ./...
	cd bench && go vet ./... && go test ./...

# What the tests run beside the server: a real Redis, its command line and its
# Sentinel, and drivers of other languages, as drivers/ pins them.
tools: drivers/.tools/python/done drivers/.tools/node/done

packages:
	@for need in redis-server:redis-server redis-sentinel:redis-sentinel redis-cli:redis-tools python3:python3 node:nodejs npm:npm ip:iproute2; do \
		command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; \
	done; \
	python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ]; then \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; \
	fi

drivers/.tools/python/done: drivers/requirements.txt | packages
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

drivers/.tools/node/done: drivers/package.json drivers/package-lock.json | packages
	@mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

# Beyond the tests: formatting, staticcheck, whether it builds for 32 bits and
# for macOS, the race detector, a short fuzz.
check:
	@odd=$$(gofmt -l .); [ -z "$$odd" ] || { echo "gofmt would change: $$odd"; exit 1; }
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	GOARCH=386 go build ./...
	GOOS=darwin go vet ./...
	go test -race -short -timeout 15m ./...
	go test ./engine -run '^$$' -fuzz FuzzAcquire -fuzztime 20s
	go test ./resp -run '^$$' -fuzz FuzzSession -fuzztime 20s
	go test ./resp -run '^$$' -fuzz FuzzReader -fuzztime 20s

# What takes long: fuzzing for minutes, attacks at full strength, 200 kills in
# each mode of durability and 5,000 power losses, every fault at every operation
# of the disk and every 200th part of every file, 20 failovers of each kind, and
# 5,000 lives of simulated nodes.
SOAK = 5m
soak:
	go test ./engine -run '^$$' -fuzz FuzzAcquire -fuzztime $(SOAK)
	go test ./resp -run '^$$' -fuzz FuzzSession -fuzztime $(SOAK)
	go test ./resp -run '^$$' -fuzz FuzzReader -fuzztime $(SOAK)
	RLSERVER_SOAK=1 go test ./cmd/rlserver -run TestMaxMemory -timeout 20m -v
	RLSERVER_SOAK=1 go test ./persist ./shard/crash -timeout 60m -v
	RLSERVER_SOAK=1 go test ./cmd/rlserver -run 'TestKill|TestPowerLoss|TestFullDisk' -timeout 60m -v
	RLSERVER_SOAK=1 go test ./cmd/rlserver -run 'TestSentinel|TestPartition' -timeout 60m -v
	RLSERVER_SOAK=5000 go test ./replicate -run 'TestSimulation$$' -timeout 60m -v

# What attacks cost, beside a real Redis, into attack/results.md: five minutes.
attack: tools
	go run ./attack compare -o attack/results.md

# BIG=-big measures starts, memory and slowest answers with 10 million keys instead of one: ten minutes more.
bench: tools
	cd bench && go run . $(BIG) -o results.md

# The algorithms side by side, and the race that a limiter of GET and SET loses.
compare: tools
	cd bench && go run . compare
