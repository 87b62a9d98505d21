// Package service declares the installation's services: processes that run for as
// long as it does, because somebody keeps a connection to them open. The
// infrastructure, the local run and the tests derive from these declarations, as
// they do from those of operations and of triggers.
//
// It holds data only, and what a process of a service can do (Process); the
// service's folder holds its declaration and its wiring. What is called and
// answers, with nothing in between, is no service: it is a function (packages api
// and trigger), which costs nothing while nobody asks.
//
// The relay is one. The gateway is another where an installation has it as a process beside the function of its name
// (Beside), with addresses that the relay has none of: one by plain HTTP, and one for its operators.
//
// A declaration names one port for clients, at which its health is asked too:
//
//	var Service = service.Service{
//		Name:   "relay",
//		Does:   "Carries requests to services behind tunnels.",
//		Port:   service.Port{Public: 443, Listens: 8443, Protocol: service.TLS},
//		Health: "/health",
//		Copies: 2,
//		Peers:  true,
//		Drain:  110 * time.Second,
//		Uses:   []api.Use{api.GetItem, api.Query, api.PutItem, api.RootKey},
//		Listen:      config.VarRelayAddr,
//		Certificate: config.VarRelayCertificate,
//	}
//
// Read this file for what is declared and what a process does. Package host runs one at its listeners, package container
// is its main on a machine or in a task of ECS, packages admin and health answer who asks how it does. Its rules are
// those of design, sections 2 and 7.
package service

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/store"
)

// Service is a long-lived process of an installation.
type Service struct {
	// Name is the folder's, and the service's.
	Name string
	// Does says what it is for, in one line.
	Does string
	// Port is where it is asked.
	Port Port
	// Health is the path that answers 200 for as long as the process takes new work,
	// and 503 from when it drains: a load balancer sends new connections elsewhere.
	// Nobody needs a credential for it, and it asks nothing of the table.
	Health string
	// Copies is how many run at once in an installation that has to survive the loss
	// of one.
	Copies int
	// Peers says that copies reach each other at Port.Listens, each under an address of its own.
	Peers bool
	// Upstreams says that it calls addresses that projects name, at any port; AWS and collectors
	// of spans are called by every service.
	Upstreams bool
	// PathBytes is the size of the longest path that its listener accepts. 0 means framing.MaxPathBytes, for a service with clients.
	PathBytes int
	// Drain is how long a process goes on after SIGTERM, with what is under way: what
	// stops it has to wait for a little longer. ECS waits for 120 s at most
	// (https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html,
	// stopTimeout).
	Drain time.Duration
	// Announce is how long a process takes new work after SIGTERM, before Drain begins: its
	// health is 503, each answer is the last on its connection, and whoever sends it work has
	// that long to notice. 0 is for a service that answers while it drains.
	Announce time.Duration
	// Uses is what it does outside its process, which is what it will be granted.
	// That it is asked by its clients, and by its other copies, is no use.
	Uses []api.Use
	// Reach is which spaces of the table it asks for. One without any is held to none.
	Reach store.Reach
	// Listen is the variable with the address to listen on, host:port, where that is not
	// Port.Listens of all addresses: outside containers.
	Listen string
	// Certificate is the variable with the certificate chain and the private key that
	// Port's TLS is spoken with, both as PEM. It is a secret: the platform puts it
	// there from where it keeps such, and no template has its text.
	Certificate string
	// CertificateFile and KeyFile are the variables that name the files of the two instead, both "" for a service
	// without: such are read again when they change.
	CertificateFile, KeyFile string
	// Plain is the variable with an address at which the same is answered by plain HTTP, "" for
	// a service without: behind what ends TLS itself. Nothing is there unless it is set.
	Plain string
	// Admin is where its operators ask how it does, the zero value for a service without.
	Admin Admin
	// Bounds are settings of what its clients may take that an installation in AWS may set for it.
	Bounds []Bound
	// Beside says that a function of its name does the same work in AWS, where an installation
	// has that one, and the service too if its context asks for it.
	Beside bool
}

// Admin is an address for operators, at which no client asks.
type Admin struct {
	// Listen is the variable with the address, host:port.
	Listen string
	// Default is the address where that is not set.
	Default string
}

// Bound is a setting of what clients may take (package config, Listener).
type Bound struct {
	// Context is the word of an installation's context that sets it, such as gatewayConnectionsPerAddress.
	Context string
	// Variable is what a process reads it from.
	Variable string
}

// Port is where a service is asked.
type Port struct {
	// Public is the port of the installation's address, that clients know.
	Public int
	// Listens is the port of a process.
	Listens int
	// Protocol is what goes over TCP.
	Protocol Protocol
}

// Protocol is what goes over a port's TCP connections, below HTTP.
type Protocol string

// The protocols.
const (
	// TLS ends in the process itself: what stands before it passes on bytes, and ends no
	// TLS, so that connections stay as the client made them, upgraded ones too.
	TLS Protocol = "tls"
	// Plain is HTTP by itself.
	Plain Protocol = "plain"
)

// Process is a service that runs, opened of an installation's parts.
type Process interface {
	// ServeHTTP answers what is asked at the port.
	http.Handler
	// Run does what has to be done from time to time, until ctx ends.
	Run(ctx context.Context)
	// Drain takes no new work from now on, and returns when none is under way any more or
	// ctx has ended. It is called while Run still runs.
	Drain(ctx context.Context)
}

// Leaver is a Process with a health of its own, which it is to call bad.
type Leaver interface {
	// Leave is called once, before Announce.
	Leave()
}

// Securer is a Process that answers handshakes itself: by more certificates than the one that
// the service has.
type Securer interface {
	// Secure makes the configuration. own opens the service's certificate as the source of names that
	// owns reports; its error is of one that is not for the host, and has no secret.
	Secure(own OwnCertificate) (*tls.Config, error)
	// Misdirected reports whether a request by HTTP/2 has to come on another connection.
	Misdirected(r *http.Request) bool
}

// OwnCertificate opens a service's certificate, as the process's own that Securer has it for.
type OwnCertificate func(owns func(name string) bool, host string) (handshake.Source, error)
