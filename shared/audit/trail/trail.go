// Package trail takes over the audit records that changes have written: it chains
// them, so that whoever looks later can tell that none was removed, altered,
// inserted or moved, counts them, and lists them.
//
// A change writes its record into one of some partitions, beside all others
// (package audit), and is done. The table's stream brings the record here: one
// transaction numbers it, writes it into its account's chain, adds it to the
// counters and removes the new one. So a record is in one of two places at any
// time, and the list reads both: it shows a change at once, chained or not.
//
// What it is not: the API, which is functions/auditlogs, or the function that the
// stream calls, which is functions/auditchain. What the chain proves, and to whom
// it proves nothing, is said in docs/audit-logs.md.
//
// Read chain.go for the taking over, link.go for what is signed, count.go and
// list.go for the list, verify.go for the proof. The rules are those of contract
// 2.2 and 3.3; the reasons are in
// docs/decisions/0036-audit-records-are-chained-behind-the-change.md.
package trail

import (
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// Trail is the audit records of an installation's accounts. It is safe for
// concurrent use.
type Trail struct {
	table  *store.Table
	signer signer
	now    func() time.Time
	log    *slog.Logger
}

// Open makes the Trail of an installation.
func Open(p installation.Parts) *Trail {
	return &Trail{p.Table, signer{p.Hasher(signingPurpose)}, p.Now, p.Log}
}
