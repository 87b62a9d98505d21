// Command certificate checks the certificate and the private key that a service is to
// have, and writes both as the one text that it reads (service.Service, Certificate):
// `make service-certificate` keeps that in Parameter Store. A mistake is told here, where
// somebody reads it, and not by tasks that do not start.
//
// What it is not: an authority, or a way to get a certificate from one. There is only
// this file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/pki"
)

func main() {
	domain := flag.String("domain", "", "the name that the certificate is for")
	chain := flag.String("chain", "", "the file of the certificate and of those that signed it, as PEM")
	key := flag.String("key", "", "the file of the certificate's private key, as PEM")
	flag.Parse()
	text, err := checked(*domain, *chain, *key, time.Now())
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "certificate:", err)
		os.Exit(1)
	}
}

// maxBytes is what Parameter Store keeps in one parameter.
const maxBytes = 8 << 10

// checked reads a chain and a key, and gives both as one text. An error names what is
// wrong with which file, and nothing of what is in it.
func checked(domain, chainFile, keyFile string, now time.Time) (string, error) {
	chain, err := read(chainFile)
	if err != nil {
		return "", err
	}
	key, err := read(keyFile)
	if err != nil {
		return "", err
	}
	pair, wrongChain, wrongKey := pki.ReadServerPair(chain, key, domain, now)
	if wrongChain != "" || wrongKey != "" {
		return "", errors.Join(wrong(chainFile, wrongChain), wrong(keyFile, wrongKey))
	}
	text := pair.Chain + pair.Key
	if len(text) > maxBytes {
		return "", fmt.Errorf("%s and %s have %d bytes together, and Parameter Store takes %d: ask the authority for an ECDSA key, or for a shorter chain",
			chainFile, keyFile, len(text), maxBytes)
	}
	return text, nil
}

func wrong(file, why string) error {
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", file, why)
}

func read(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the operator names it
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, pki.MaxCertificateBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return string(raw), nil
}
