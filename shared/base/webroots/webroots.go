// Package webroots has the certificate authorities of the public web, for programs on a system that has none, such as
// a container image with only the program. They are the authorities that Mozilla trusted at the time of the build
// (golang.org/x/crypto/x509roots).
//
// The alternative x509roots/fallback parses all of them at each start of a program, even if the program needs none.
// This takes 3 ms, which is more than the rest of the client's start takes. A program must not use both packages,
// because x509.SetFallbackRoots panics if it is called twice. This is the only file.
package webroots

import (
	"crypto/x509"
	"fmt"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// InstallFallback makes this process verify certificates with these authorities if the system has no authorities
// (x509.SetFallbackRoots). Call it before the first TLS connection. A second call does nothing.
var InstallFallback = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for c := range bundle.Roots() {
		authority, err := x509.ParseCertificate(c.Certificate)
		if err != nil {
			panic(fmt.Sprintf("an authority of the build's own cannot be read: %v", err))
		}
		if c.Constraint == nil {
			pool.AddCert(authority)
		} else {
			pool.AddCertWithConstraint(authority, c.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
})
