// Asks a primary that Sentinels name, by ioredis, until its standard input ends.
//
// Its one argument is JSON, see load in drivers_test.go, which also says what it
// prints: a line a call.
"use strict";
const Redis = require("ioredis");

const load = JSON.parse(process.argv[2]);
const redis = new Redis({
  sentinels: load.sentinels.map(([host, port]) => ({ host, port })),
  name: load.name,
  password: load.password || undefined,
  commandTimeout: load.timeout_ms,
  connectTimeout: load.timeout_ms,
  reconnectOnError: (err) => err.message.startsWith("READONLY"),
  retryStrategy: (times) => Math.min(50 * times, 500),
  maxRetriesPerRequest: 0, // a command that was sent is not sent again: it might debit twice
  autoResendUnfulfilledCommands: false,
});
redis.on("error", () => {}); // each call tells its own

let ended = false;
process.stdin.on("end", () => { ended = true; }).resume();

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function ask() {
  while (!ended) {
    const [key, rate, burst] = load.keys[Math.floor(Math.random() * load.keys.length)];
    const sent = Date.now();
    let answer;
    try {
      answer = (await redis.call("RL.ACQUIRE", key, rate, burst, sent))[0];
    } catch (error) {
      answer = `${error.name}: ${error.message}`.replaceAll("\n", " ");
    }
    console.log(sent * 1000, Date.now() * 1000, key, answer);
    await sleep(load.pause_ms);
  }
}

Promise.all(Array.from({ length: load.workers }, ask)).then(() => redis.disconnect());
