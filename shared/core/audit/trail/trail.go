// Package trail chains the audit records that changes have written, so that a verification detects
// if a record was removed, altered, inserted or moved. It also counts and lists the records.
//
// A change only writes its record into one of several partitions (package audit). The table's stream delivers the record to this
// package: one transaction numbers it, writes it into its account's chain, adds it to the counters and deletes the pending record.
// So a record is in one of two places at any time, and the list reads both: it shows a change immediately, chained or not.
//
// The package is not the API, which is functions/auditlogs, or the function that the stream calls, which is
// functions/auditchain. docs/audit-logs.md says what the chain proves, and who could change it without detection.
//
// Read chain.go for the chaining, link.go for the signed content, count.go and list.go for the list, verify.go for the proof. The
// rules are those of contract 2.2 and 3.3; the reasons are in docs/decisions/0036-audit-records-are-chained-behind-the-change.md.
package trail

import (
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Trail manages the audit records of an installation's accounts. It is safe for concurrent use.
type Trail struct {
	table  *store.Table
	signer signer
	now    func() time.Time
	log    *slog.Logger
}

// Open returns the Trail of an installation.
func Open(p installation.Parts) *Trail {
	return &Trail{p.Table, signer{p.Hasher(signingPurpose)}, p.Now, p.Log}
}
