//go:build !race

package persist

const thin = 1
