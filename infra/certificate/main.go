// Command certificate checks the certificate and the private key for a service, and writes both as one text. `make
// service-certificate` stores the text in Parameter Store, and the service reads it (the field Certificate of
// service.Service). The command reports mistakes immediately to the operator. Otherwise tasks would fail to start.
//
// It is not a certificate authority and does not request certificates. This is its only file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/pki"
)

func main() {
	domain := flag.String("domain", "", "the name that the certificate is for")
	chain := flag.String("chain", "", "the file of the certificate and of those that signed it, as PEM")
	key := flag.String("key", "", "the file of the certificate's private key, as PEM")
	flag.Parse()
	text, err := readBundle(*domain, *chain, *key, time.Now())
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "certificate:", err)
		os.Exit(1)
	}
}

// maxBytes is the maximum size of a parameter in Parameter Store.
const maxBytes = 8 << 10

// readBundle reads a chain and a key, and returns both as one text. An error says which file is wrong and why, and
// contains no content of the files.
func readBundle(domain, chainFile, keyFile string, now time.Time) (string, error) {
	chain, err := read(chainFile)
	if err != nil {
		return "", err
	}
	key, err := read(keyFile)
	if err != nil {
		return "", err
	}
	pair, chainReason, keyReason := pki.ReadServerPair(chain, key, domain, now)
	if chainReason != "" || keyReason != "" {
		return "", errors.Join(fileError(chainFile, chainReason), fileError(keyFile, keyReason))
	}
	text := pair.Chain + pair.Key
	if len(text) > maxBytes {
		return "", fmt.Errorf("%s and %s have %d bytes together, and Parameter Store takes %d: ask the authority for an "+
			"ECDSA key, or for a shorter chain",
			chainFile, keyFile, len(text), maxBytes)
	}
	return text, nil
}

// fileError returns an error with the name of a file, or nil if reason is "".
func fileError(file, reason string) error {
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", file, reason)
}

// read reads a text file of at most pki.MaxChainBytes.
func read(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the operator names it
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	raw, err := disk.ReadAtMost(file, pki.MaxChainBytes)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return string(raw), nil
}
