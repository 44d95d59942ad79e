// A second opinion on both ends of the Workload API: SPIFFE's own client, and a server on the gRPC library that SPIRE uses.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s fetch|serve <socket>", os.Args[0]))
	}
	switch os.Args[1] {
	case "fetch":
		fail(fetch(os.Args[2]))
	case "serve":
		fail(serve(os.Args[2]))
	default:
		fail(fmt.Errorf("unknown command %s", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
