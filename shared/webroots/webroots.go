// Package webroots has the authorities of the web for a program on a system that knows none, such as an image with nothing
// but the program. They are Mozilla's, as of the build (golang.org/x/crypto/x509roots).
//
// What it is not: x509roots/fallback, whose import reads all of them at each start of a program, whatever it then does: 3 ms,
// which is more than everything else that the client does before it has a command. A program has this one or that, never
// both. There is only this file.
package webroots

import (
	"crypto/x509"
	"fmt"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Fall has certificates be verified by these authorities from now on where the system has none, and changes nothing
// where it has some (x509.SetFallbackRoots). It is for whoever is about to connect to another machine; a second call does
// nothing.
var Fall = sync.OnceFunc(func() {
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
