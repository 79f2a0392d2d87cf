//go:build amd64 || arm64

package shard

import "unsafe"

// prefetch has the processor bring the cache line at p. Go has no other word for
// it: a plain read would be waited for at the next lock.
//
//go:noescape
func prefetch(p unsafe.Pointer)
