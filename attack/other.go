//go:build !linux

// Attack needs Linux: it reads the memory of other processes in /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "attack: needs Linux")
	os.Exit(1)
}
