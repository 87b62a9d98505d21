// Package durable builds the engine of durable operations out of all their
// definitions, which other packages own. The functions that begin operations and
// those that continue them share it. A kind that is
// missing here would never end.
package durable

import (
	"slices"

	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/issuance"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/removal"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// Engine makes the engine of an installation.
func Engine(p installation.Parts) (*operation.Engine, error) {
	o := operation.Options{Now: p.Now, Random: p.Random, Log: p.Log}
	if p.Telemetry.Metrics {
		o.Metrics = p.Config.Table
	}
	return operation.New(p.Table, Definitions(p), o)
}

// Definitions lists all kinds of operation.
func Definitions(p installation.Parts) []operation.Definition {
	return slices.Concat(
		builds.Open(p).Definitions(), keys.NewCascades(p.Table).Definitions(),
		removal.Open(p).Definitions(),
		metering.NewRemover(p).Definitions(),
		customdomains.Open(p).Definitions(), tunnels.Open(p).Definitions(),
		[]operation.Definition{customdomains.Open(p).Issue(issuance.Open(p, nil))},
		boundaries.Open(p).Definitions(),
		certificates.Truststores{Table: p.Table, Objects: p.Bucket}.Definitions(),
	)
}
