//go:build !linux

package main

const varRole = "GATEWRIGHT_TEST_COMMAND_ROLE"

func playRole(string) int { return 0 }
