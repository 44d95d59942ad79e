package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

func judgeAll(rootsFile string, chainFiles []string) error {
	roots, err := readCertificates(rootsFile)
	if err != nil {
		return err
	}
	for _, file := range chainFiles {
		fmt.Println(judge(roots, file))
	}
	return nil
}

// One root serves all trust domains, so it is put in as the bundle of whichever the leaf claims.
func judge(roots []*x509.Certificate, file string) string {
	chain, err := readCertificates(file)
	if err != nil {
		return "refused " + oneLine(err)
	}
	claimed, err := x509svid.IDFromCert(chain[0])
	if err != nil {
		return "refused " + oneLine(err)
	}
	if err := checkKey(file, chain); err != nil {
		return "refused " + oneLine(err)
	}
	bundle := x509bundle.FromX509Authorities(claimed.TrustDomain(), roots)
	id, _, err := x509svid.Verify(chain, bundle)
	if err != nil {
		return "refused " + oneLine(err)
	}
	return "accepted " + id.String()
}

// Where there is a key beside the chain, the pair is read as a workload would read it.
func checkKey(file string, chain []*x509.Certificate) error {
	keyFile := strings.TrimSuffix(file, filepath.Ext(file)) + ".key"
	if _, err := os.Stat(keyFile); os.IsNotExist(err) {
		return nil
	}
	svid, err := x509svid.Load(file, keyFile)
	if err != nil {
		return err
	}
	if len(svid.Certificates) != len(chain) {
		return fmt.Errorf("%d certificates were loaded, %d are there", len(svid.Certificates), len(chain))
	}
	return nil
}

func readCertificates(file string) ([]*x509.Certificate, error) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return certificates, nil
}

func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
