// Package metering is the service for products that an account sells by the unit: buckets with plans, and the
// subscriptions of customers to them (specification 4.9, "Metering plan", "Metering subscription"; contract 2.9, 3.7, 9).
//
// The current state of a subscription follows from its record and the clock at each read: its period, its remaining quotas, and
// whether its trial is over. No process has to run at the end of a period. Close records what has passed, and may run late.
//
// The package does not count units; package allowance does. It does not calculate periods; package meter does. It takes
// no payments.
//
// Read this file first, then bucket.go, plan.go, subscription.go with update.go, quota.go (units and
// their history), boundary.go (the ends of periods and trials), directory.go (requests of gateways)
// with customer.go, and removal.go. Each record is defined next to its key prefix.
package metering

import (
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// The limits of the contents of a bucket. limits.MeteringBuckets limits the buckets of an account. Plans are listed all
// at once, subscriptions page by page.
const (
	MaxPlans         = 100
	MaxSubscriptions = 1_000_000
)

// Service implements the operations. It is safe for concurrent use.
type Service struct{ parts installation.Parts }

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p} }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// visible reports whether the caller can see the account's metering. A caller that is limited to projects or
// environments cannot, because metering belongs to no project or environment.
func visible(o auth.Owner) bool { return o.Viewer.CanSee("", "") }

var errRestrictedKey = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and "+
	"sees no metering, which is the whole account's. Use a key without such limits.")

// BucketLocator identifies a bucket of an account.
type BucketLocator struct {
	auth.Owner
	Bucket string
}
