// Package relay declares the relay, to which the agents of tunnels connect and
// through which gateways ask the services behind them (specification 4.8,
// contract 2.8).
//
// What is here is the declaration and wiring alone: package relay in shared makes
// the relay, and package tunnel carries what goes over its connections.
package relay

import (
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/service"
)

// Service declares the relay.
var Service = service.Service{
	Name:   "relay",
	Does:   "Carries requests to services behind tunnels.",
	Port:   service.Port{Public: 443, Listens: 8443, Protocol: service.TLS},
	Health: "/health",
	Copies: 2,
	Drain:  110 * time.Second,
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem, api.RootKey,
	},
	Certificate: config.VarRelayCertificate,
}
