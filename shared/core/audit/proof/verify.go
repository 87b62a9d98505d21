package proof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Commitment is the number and hash of a record that were noted outside the table,
// such as the end of the chain in an export or in a log line. The chain must still
// contain this record, unless the record has expired. The zero value requires nothing.
type Commitment struct {
	Seq  int64
	Hash string
}

// ParseCommitment parses a commitment in the format of String.
func ParseCommitment(text string) (Commitment, error) {
	number, hash, ok := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || seq < 1 || hash == "" {
		return Commitment{},
			errors.New("write a record's number and its hash, such as 17:nF3…, as `audit verify` prints them")
	}
	return Commitment{seq, hash}, nil
}

func (c Commitment) String() string { return strconv.FormatInt(c.Seq, 10) + ":" + c.Hash }

// Report is the result of a verification.
type Report struct {
	// First and Last are the numbers of the oldest and the newest remaining
	// record, 0 if there are none. The records before First have expired.
	First, Last int64
	// End is the end of the chain. Note it, to check later whether the chain still contains this record.
	End Commitment
	// Waiting is the number of records that are not chained yet.
	Waiting int
	// Break describes the first problem in the chain, "" if there is none.
	Break string
}

// Records returns the number of records in the chain.
func (r Report) Records() int64 {
	if r.First == 0 {
		return 0
	}
	return r.Last - r.First + 1
}

// CheckedLink has the parts of a link that are compared with its neighbors in the chain, and the link's own problem.
type CheckedLink struct {
	Seq int64
	// Problem describes the problem of the link itself, "" if there is none.
	Problem string

	hash, previous   string
	ttl, previousTTL int64
}

// CheckLink checks a single link.
func (k PublicKey) CheckLink(accountID string, l Link) CheckedLink {
	s := CheckedLink{l.Seq, "", l.Hash, l.Previous, l.TTL, l.PreviousTTL}
	switch {
	case l.Hash != l.Digest(accountID):
		s.Problem = "was altered: its content has another hash than it was chained with"
	case !k.Verify(Record, accountID, l.Seq, l.Hash, l.Signature):
		s.Problem = "was altered or inserted: it is not signed by this installation"
	}
	return s
}

// Verifier verifies a chain.
type Verifier struct {
	Report

	now      time.Time
	expected Commitment
	last     CheckedLink
}

// NewVerifier returns a Verifier for the state of a chain at the time now. The
// chain must contain the expected record unless that record has expired.
func NewVerifier(now time.Time, expected Commitment) *Verifier {
	return &Verifier{now: now, expected: expected}
}

// RecordBreak records a break at the record seq. Only the first break is kept.
func (v *Verifier) RecordBreak(seq int64, format string, args ...any) {
	if v.Break == "" {
		v.Break = fmt.Sprintf("record %d ", seq) + fmt.Sprintf(format, args...)
	}
}

// Add verifies the next record. Call it in the order of the records' numbers.
func (v *Verifier) Add(s CheckedLink) {
	switch previous := v.last; {
	case s.Problem != "":
		v.RecordBreak(s.Seq, "%s", s.Problem)
	case v.First == 0 && (s.Seq == 1) != (s.previous == ""):
		v.RecordBreak(s.Seq, "was altered: it does not say what came before it")
	case v.First == 0 && s.previousTTL > v.now.Unix():
		v.RecordBreak(s.Seq-1, "was removed, and perhaps others before it: it had not expired")
	case v.First == 0:
	case s.Seq == previous.Seq:
		v.RecordBreak(s.Seq, "is there twice: one of them was inserted")
	case s.Seq < previous.Seq:
		v.RecordBreak(s.Seq, "comes behind record %d: they were reordered", previous.Seq)
	case s.Seq > previous.Seq+1:
		v.RecordBreak(previous.Seq+1, "was removed, as was all up to record %d", s.Seq-1)
	case s.previous != previous.hash || s.previousTTL != previous.ttl || s.ttl < previous.ttl:
		v.RecordBreak(s.Seq, "does not follow from the one before it: one of them was replaced")
	}
	if c := v.expected; c.Seq == s.Seq && c.Hash != s.hash {
		v.RecordBreak(s.Seq, "is another than the one that was noted")
	}
	if v.First == 0 {
		v.First = s.Seq
	}
	v.Last, v.last, v.Report.End = s.Seq, s, Commitment{s.Seq, s.hash}
}

// Finish completes the verification after the last record. end has the number
// and hash of the chain's last record. expires is when that record expires.
func (v *Verifier) Finish(end Commitment, expires time.Time) Report {
	switch {
	case v.Last < end.Seq && (v.Last > 0 || expires.Unix() > v.now.Unix()):
		v.RecordBreak(v.Last+1, "was removed, as was all behind it: the chain ends with record %d", end.Seq)
	case v.Last > end.Seq:
		v.RecordBreak(end.Seq+1, "was inserted: the chain ends before it")
	case v.Last > 0 && v.last.hash != end.Hash:
		v.RecordBreak(v.Last, "is another than the chain ends with")
	}
	v.Report.End = end
	if c := v.expected; c.Seq > end.Seq {
		v.RecordBreak(end.Seq+1, "was removed, as was all up to record %d, which was noted", c.Seq)
	}
	return v.Report
}
