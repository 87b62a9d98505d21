// Package service declares the installation's services: processes that run all the time, because clients keep
// connections to them open. The infrastructure, the local run and the tests are derived from these declarations, as
// they are from the declarations of operations and triggers.
//
// The package contains only the types of declarations, and the interface of a service's process (Process). The
// declaration of a service and its main are in the service's folder. A program that does no work between calls is not a
// service but a function (packages api and trigger), which costs nothing while there are no calls.
//
// The relay is a service. The gateway is a service too in installations that run it as a process, in addition to the
// function of the same name (AlsoFunction). Unlike the relay, the gateway also has an address for plain HTTP and an
// address for its operators.
//
// A declaration has one port for clients and health checks:
//
//	var Service = service.Service{
//		Name:        "relay",
//		Description: "Carries requests to services behind tunnels.",
//		Port:        service.Port{Public: 443, Listen: 8443, Protocol: service.TLS},
//		Health:      "/health",
//		Copies:      2,
//		HasPeers:       true,
//		Drain:       110 * time.Second,
//		Uses:        []api.Use{api.GetItem, api.Query, api.PutItem, api.RootKey},
//		Listen:      config.VarRelayAddr,
//		Certificate: config.VarRelayCertificate,
//	}
//
// Read this file for the declarations and the interface of a process. Package host runs a process at its
// listeners. Package container is the main of a service on a machine or in an ECS task. Packages admin and health
// serve health and metrics. Rules: design, sections 2 and 7.
package service

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Service is a long-lived process of an installation.
type Service struct {
	// Name is the name of the folder and of the service.
	Name string
	// Description describes the service in one line.
	Description string
	// Port is the port for clients.
	Port Port
	// Health is the path with status 200 until the process begins to shut down, and 503 after that: a load balancer
	// then sends new connections elsewhere. It needs no credentials, and does not access the table.
	Health string
	// Copies is the number of processes in an installation that has to survive the loss of a process.
	Copies int
	// HasPeers reports whether copies connect to each other, at Port.Listen of each copy's own address.
	HasPeers bool
	// CallsUpstreams reports whether the service calls addresses that projects name, at any port.
	// Every service calls AWS and collectors of spans, so these calls are not declared.
	CallsUpstreams bool
	// PathBytes is the maximum size of a path that the service's
	// listener accepts, in bytes. 0 means framing.MaxPathBytes.
	PathBytes int
	// Drain is the maximum time for which running requests continue after SIGTERM and the time Announce. The supervisor
	// has to wait slightly longer than the sum of both before it kills the process. ECS waits for at most 120 s
	// (https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html, stopTimeout).
	Drain time.Duration
	// Announce is the time for which a process continues to accept new work after SIGTERM, before Drain begins. During
	// that time its health is 503, and each response closes its connection, so that clients connect to another copy. 0
	// is for a service that accepts requests while it drains.
	Announce time.Duration
	// Uses are the service's accesses to resources outside its process. The infrastructure
	// grants them. Requests from its clients and from its other copies are not uses.
	Uses []api.Use
	// TableAccess is the service's access to the table. The zero value means no access.
	TableAccess store.TableAccess
	// Listen is the variable with the address to listen on, host:port. If the variable
	// is not set, as in containers, the service listens at Port.Listen of all addresses.
	Listen string
	// Certificate is the variable with the certificate chain and the private key for TLS at Port, both as PEM. It is a
	// secret: the platform sets it from its store of secrets, and no template contains it.
	Certificate string
	// CertificateFile and KeyFile are the variables with the names of two files, which replace Certificate: the
	// certificate chain and the private key. Both are "" for a service without this option. The files are read again
	// when they change.
	CertificateFile, KeyFile string
	// Plain is the variable with a second address, at which the service serves the same requests by plain HTTP, behind
	// a proxy that ends TLS. Plain is "" for a service without this option. The service listens there only if the
	// variable is set.
	Plain string
	// Admin is the address for operators. It is the zero value for a service without such an address.
	Admin Admin
	// Limits are the limits on clients that an installation in AWS can set for the service.
	Limits []Limit
	// AlsoFunction reports whether a function of the same name does the same work in AWS. Every
	// installation has the function. It also has the service if its CDK context requests it.
	AlsoFunction bool
}

// Admin is an address for operators, not for clients.
type Admin struct {
	// Listen is the variable with the address, host:port.
	Listen string
	// Default is the address if the variable is not set.
	Default string
}

// Limit is a limit on clients (package config, Listener).
type Limit struct {
	// Context is the CDK context key that sets the limit, such as gatewayConnectionsPerAddress.
	Context string
	// Variable is the environment variable from which the process reads the limit.
	Variable string
}

// Port is the port of a service.
type Port struct {
	// Public is the port at the installation's address, to which clients connect.
	Public int
	// Listen is the port at which a process listens.
	Listen int
	// Protocol is the protocol over TCP.
	Protocol Protocol
}

// Protocol is the protocol on a port's TCP connections, below HTTP.
type Protocol string

// The values of Protocol.
const (
	// TLS is ended by the process itself. A load balancer in front of it forwards bytes and does
	// not end TLS, so that it does not change or interrupt connections, not even upgraded ones.
	TLS Protocol = "tls"
	// Plain is HTTP without TLS.
	Plain Protocol = "plain"
)

// Process is a running service, opened with an installation's parts.
type Process interface {
	// ServeHTTP serves the requests at the port.
	http.Handler
	// Run does periodic work until ctx ends.
	Run(ctx context.Context)
	// Drain stops accepting new work, and returns when no work is running
	// or when ctx ends. Drain is called before the context of Run ends.
	Drain(ctx context.Context)
}

// ShutdownListener is a Process that serves its own health
// response, and has to report during shutdown that it is not ready.
type ShutdownListener interface {
	// AnnounceShutdown is called once, when the shutdown begins.
	AnnounceShutdown()
}

// Securer is a Process that handles TLS handshakes itself, with more certificates than the service's own.
type Securer interface {
	// Secure returns the TLS configuration. It calls open to open the service's certificate.
	Secure(open CertificateOpener) (*tls.Config, error)
	// Misdirected reports whether an HTTP/2 request belongs on another connection.
	Misdirected(r *http.Request) bool
}

// CertificateOpener opens a service's certificate for a Securer. The returned source provides the certificate for the
// names for which owns returns true. If the certificate is not valid for host, it returns an error, which contains no
// secret.
type CertificateOpener func(owns func(name string) bool, host string) (handshake.Source, error)
