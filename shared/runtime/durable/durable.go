// Package durable creates the engine of durable operations from the definitions of other packages. Functions that begin
// operations use the same definitions as functions that continue them. An operation whose kind is missing in
// Definitions would never end.
package durable

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/issuance"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/resource/projectdeletion"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// TableAccess returns the table access of the tasks of all kinds of operation. The access includes nearly all records
// of accounts, because one task deletes the contents of a project, and another task re-encrypts data under the next
// root key. It does not include accounts, their keys, audit records or analytics.
func TableAccess() store.TableAccess {
	return store.TableAccess{
		Reads: []store.KeyPrefix{
			"account-limits", "acme-account", "allowance", "bucket-id", "buckets", "client-ca", "client-ca-set",
			"consumer-count",
			"consumer-keys", "consumers", "custom-domain", "custom-domain-challenge", "custom-domain-orders", "deployment",
			"environments", "key-batch", "key-hash", "metering-bucket", "metering-history", "metering-plan",
			"metering-subscription",
			"mtls-certificate", "operation", "root-key", "root-key-history", "tunnel-configuration", "tunnel-service",
			"variable-count", "variables",
		},
		Writes: []store.KeyPrefix{
			"acme-account", "allowance", "bucket-id", "buckets", "builds-begun", "consumer-by", "consumer-count", "consumer-id",
			"consumer-keys",
			"consumers", "custom-domain", "custom-domain-challenge", "custom-domain-count", "custom-domain-host",
			"custom-domain-index", "custom-domain-orders", "custom-domain-versions", "deployment", "environments", "key-batch",
			"key-hash", "metering-customer", "metering-history", "metering-plan", "metering-plan-external",
			"metering-subscription",
			"metering-subscription-external", "mtls-certificate", "mtls-certificate-count", "mtls-certificate-name", "operation",
			"projects", "root-key", "root-key-history", "tunnel", "tunnel-configuration", "tunnel-service", "tunnel-token",
			"variable-count",
			"variables",
		},
		Scans: true, // a rotation of the root key scans for data under the old key
	}
}

// restrictTable returns p with the table restricted to TableAccess.
func restrictTable(p installation.Parts) installation.Parts {
	if p.Table != nil { // it is nil if the caller needs only the kinds of operations
		p.Table = p.Table.Restrict(TableAccess())
	}
	return p
}

// Engine returns the engine of an installation.
func Engine(p installation.Parts) (*operation.Engine, error) {
	p = restrictTable(p)
	o := operation.Options{Now: p.Now, Random: p.Random, Log: p.Log}
	if p.Telemetry.Metrics {
		o.MetricsTable = p.Config.Table
	}
	return operation.New(p.Table, Definitions(p), o)
}

// Rotation returns the service that rotates the root key of an installation.
// The service rotates all records that packages declare with RotatedValues, the records of package api, and the
// artifacts.
func Rotation(p installation.Parts) *rotation.Service {
	p = restrictTable(p)
	records := slices.Concat(
		keys.RotatedValues(p), tunnels.RotatedValues(p), variables.RotatedValues(p), upstreamcerts.RotatedValues(p),
		customdomains.RotatedValues(p), issuance.RotatedValues(p), api.SealedRecords(),
	)
	sealer := p.Sealer()
	return rotation.Open(p, records, artifacts.Prefix(),
		func(ctx context.Context, key string) (renewed, ok bool, err error) {
			return artifacts.Renew(ctx, p.Bucket, sealer, key, func(ctx context.Context, name string) (inUse bool, err error) {
				deployment, _, _ := strings.Cut(name, "/")
				r, err := deployments.Read(ctx, p.Table, deployment)
				if errors.Is(err, store.ErrNotFound) {
					return false, nil
				}
				return r.Needed(name), err
			})
		})
}

// Definitions returns the definitions of all kinds of operation.
func Definitions(p installation.Parts) []operation.Definition {
	return slices.Concat(
		builds.Open(p).Definitions(), keys.NewCascades(p.Table).Definitions(),
		projectdeletion.Open(p).Definitions(),
		metering.NewRemover(p).Definitions(),
		customdomains.Open(p).Definitions(), tunnels.Open(p).Definitions(),
		[]operation.Definition{customdomains.Open(p).IssuanceDefinition(issuance.Open(p, nil))},
		billingperiods.Open(p).Definitions(),
		clientcas.Truststores{Table: p.Table, Objects: p.Bucket}.Definitions(),
		Rotation(p).Definitions(),
	)
}
