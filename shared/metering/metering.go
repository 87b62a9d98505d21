// Package metering is the service of what an account sells by the unit: buckets with plans and
// the subscriptions of customers to them (specification 4.9, "Metering plan", "Metering
// subscription"; contract 2.9, 3.7, 9).
//
// What a subscription is now follows from its record and the clock whenever it is read: in
// which period it is, what of its quotas is left, whether its trial is over. Nothing has to happen at a
// boundary for that; Close writes down what has passed, and may come late.
//
// What it is not: it counts no units, which package allowance does, and knows no calendar,
// which package meter does. It takes no payments.
//
// Read this file first, then bucket.go, plan.go, subscription.go with update.go, quota.go (units
// and their history), boundary.go (what passes), directory.go (what a gateway asks), removal.go
// and table.go.
package metering

import (
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// The bounds of what a bucket has, of which an account has limits.MeteringBuckets. A list of plans is read whole; subscriptions
// are read by the page.
const (
	MaxPlans         = 100
	MaxSubscriptions = 1_000_000
)

// Service does the operations. It is safe for concurrent use.
type Service struct{ parts installation.Parts }

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p} }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// visible reports whether a caller sees the account's metering, which belongs to none of its
// projects and environments.
func visible(o auth.Owner) bool { return o.Viewer.MaySee("", "") }

var errLimited = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and sees no metering, which is the whole account's. Use a key without such limits.")

// BucketAt names a bucket of an account.
type BucketAt struct {
	auth.Owner
	Bucket string
}
