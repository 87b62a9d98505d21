// Package durable builds the engine of durable operations out of all their
// definitions, which other packages own. The functions that begin operations and
// those that continue them share it. A kind that is
// missing here would never end.
package durable

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/issuance"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/removal"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnels"
	"github.com/gatewright/gatewright/shared/variables"
)

// Reach is what the tasks of all kinds ask of the table: of what accounts have made nearly everything, since one deletes what a project has and
// another puts it under the next root key. They ask for no account, none of its keys, no audit record and no figure of analytics.
func Reach() store.Reach {
	return store.Reach{
		Reads: []store.Space{
			"account-limits", "acme-account", "allowance", "bucket-id", "buckets", "client-ca", "client-ca-set", "consumer-count",
			"consumer-keys", "consumers", "custom-domain", "custom-domain-challenge", "custom-domain-orders", "deployment",
			"environments", "key-batch", "key-hash", "metering-bucket", "metering-history", "metering-plan", "metering-subscription",
			"mtls-certificate", "operation", "root-key", "root-key-history", "tunnel-configuration", "tunnel-service", "variable-count", "variables",
		},
		Writes: []store.Space{
			"acme-account", "allowance", "bucket-id", "buckets", "builds-begun", "consumer-by", "consumer-count", "consumer-id", "consumer-keys",
			"consumers", "custom-domain", "custom-domain-challenge", "custom-domain-count", "custom-domain-host",
			"custom-domain-index", "custom-domain-orders", "custom-domain-versions", "deployment", "environments", "key-batch",
			"key-hash", "metering-customer", "metering-history", "metering-plan", "metering-plan-external", "metering-subscription",
			"metering-subscription-external", "mtls-certificate", "mtls-certificate-count", "mtls-certificate-name", "operation",
			"projects", "root-key", "root-key-history", "tunnel", "tunnel-configuration", "tunnel-service", "tunnel-token", "variable-count",
			"variables",
		},
		Scans: true, // a rotation finds what is under the old root key
	}
}

// held are the parts with the table held to what the tasks reach.
func held(p installation.Parts) installation.Parts {
	if p.Table != nil { // there is none where somebody wants to know the kinds alone
		p.Table = p.Table.Within(Reach())
	}
	return p
}

// Engine makes the engine of an installation.
func Engine(p installation.Parts) (*operation.Engine, error) {
	p = held(p)
	o := operation.Options{Now: p.Now, Random: p.Random, Log: p.Log}
	if p.Telemetry.Metrics {
		o.Metrics = p.Config.Table
	}
	return operation.New(p.Table, Definitions(p), o)
}

// Rotation makes what rotates the root key of an installation: of all that is declared to have something of it.
func Rotation(p installation.Parts) *rotation.Service {
	p = held(p)
	kept := slices.Concat(
		keys.Kept(p), tunnels.Kept(p), variables.Kept(p), mtlscertificates.Kept(p), customdomains.Kept(p), issuance.Kept(p), api.Kept(),
	)
	sealer := p.Sealer()
	return rotation.Open(p, kept, artifacts.Prefix(), func(ctx context.Context, key string) (renewed, ok bool, err error) {
		return artifacts.Renew(ctx, p.Bucket, sealer, key, func(ctx context.Context, name string) (bool, error) {
			deployment, _, _ := strings.Cut(name, "/")
			r, err := deployments.Read(ctx, p.Table, deployment)
			if errors.Is(err, store.ErrNotFound) {
				return false, nil
			}
			return r.Needed(name), err
		})
	})
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
		Rotation(p).Definitions(),
	)
}
