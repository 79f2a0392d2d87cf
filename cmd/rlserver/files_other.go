//go:build !linux && !darwin

package main

// openFiles is not known here.
func openFiles() fileLimit { return unlimitedFiles() }
