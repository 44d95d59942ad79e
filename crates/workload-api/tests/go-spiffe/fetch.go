package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// fetch prints what SPIFFE's client makes of the first answer: the identities, then the trust domains it got bundles of.
func fetch(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found, err := workloadapi.FetchX509Context(ctx, workloadapi.WithAddr("unix://"+socket))
	if err != nil {
		return err
	}
	for _, svid := range found.SVIDs {
		fmt.Println(svid.ID)
	}
	var domains []string
	for _, bundle := range found.Bundles.Bundles() {
		domains = append(domains, fmt.Sprintf("%s has %d roots", bundle.TrustDomain(), len(bundle.X509Authorities())))
	}
	sort.Strings(domains)
	for _, domain := range domains {
		fmt.Println(domain)
	}
	return nil
}
