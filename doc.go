// Package rlserver is the root of the rate-limiter store; the program is in
// cmd/rlserver, and rooms_test.go says which folder may know which.
package rlserver
