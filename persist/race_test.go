//go:build race

package persist

// thin is how much less is tried of what is tried many times: the race detector makes it ten times slower.
const thin = 8
