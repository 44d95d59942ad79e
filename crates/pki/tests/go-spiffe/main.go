// An independent opinion on our certificates, for tests/independent.rs. Two commands:
//
//	judge <roots.pem> <chain.pem>...   prints one line for each chain: "accepted <SPIFFE id>" or "refused <why>"
//	make <folder>                      writes authorities as users bring them along: <name>.crt and <name>.key
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) >= 2 && arguments[0] == "judge":
		return judgeAll(arguments[1], arguments[2:])
	case len(arguments) == 2 && arguments[0] == "make":
		return makeAll(arguments[1])
	default:
		return fmt.Errorf("usage: judge <roots.pem> <chain.pem>... | make <folder>")
	}
}
