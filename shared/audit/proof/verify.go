package proof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Commitment is a place in a chain that was noted elsewhere, such as the end that
// an export or a line of the log told: a chain that once had it has to have it
// still. The zero value asks for nothing.
type Commitment struct {
	Seq  int64
	Hash string
}

// ParseCommitment reads what String has written.
func ParseCommitment(text string) (Commitment, error) {
	number, hash, ok := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || seq < 1 || hash == "" {
		return Commitment{}, errors.New("write a record's number and its hash, such as 17:nF3…, as `audit verify` prints them")
	}
	return Commitment{seq, hash}, nil
}

func (c Commitment) String() string { return strconv.FormatInt(c.Seq, 10) + ":" + c.Hash }

// Report is what a verification has found.
type Report struct {
	// First and Last are the numbers of the oldest and the newest record that there
	// is, 0 for none; those in front of First have expired.
	First, Last int64
	// End is the end of the chain: who notes it can tell later whether the chain
	// still has it.
	End Commitment
	// Waiting is how many records are not chained yet.
	Waiting int
	// Break is what is wrong, at the first record where anything is; "" for nothing.
	Break string
}

// Records is how many there are in the chain.
func (r Report) Records() int64 {
	if r.First == 0 {
		return 0
	}
	return r.Last - r.First + 1
}

// Step is what of a link matters to its neighbours, and what is wrong with itself.
type Step struct {
	Seq int64
	// Wrong says what is wrong with the link itself, "" for nothing.
	Wrong string

	hash, previous   string
	ttl, previousTTL int64
}

// Step looks at a link by itself.
func (k PublicKey) Step(accountID string, l Link) Step {
	s := Step{l.Seq, "", l.Hash, l.Previous, l.TTL, l.PreviousTTL}
	switch {
	case l.Hash != l.Digest(accountID):
		s.Wrong = "was altered: its content has another hash than it was chained with"
	case !k.Holds(Record, accountID, l.Seq, l.Hash, l.Signature):
		s.Wrong = "was altered or inserted: it is not signed by this installation"
	}
	return s
}

// Verifier goes along a chain.
type Verifier struct {
	Report

	now       time.Time
	committed Commitment
	last      Step
}

// Verify makes a Verifier of what a chain is now, which has to have what was noted.
func Verify(now time.Time, noted Commitment) *Verifier { return &Verifier{now: now, committed: noted} }

// Broken notes the first break.
func (v *Verifier) Broken(seq int64, format string, args ...any) {
	if v.Break == "" {
		v.Break = fmt.Sprintf("record %d ", seq) + fmt.Sprintf(format, args...)
	}
}

// Add is called with the records in the order of their numbers.
func (v *Verifier) Add(s Step) {
	switch before := v.last; {
	case s.Wrong != "":
		v.Broken(s.Seq, "%s", s.Wrong)
	case v.First == 0 && (s.Seq == 1) != (s.previous == ""):
		v.Broken(s.Seq, "was altered: it does not say what came before it")
	case v.First == 0 && s.previousTTL > v.now.Unix():
		v.Broken(s.Seq-1, "was removed, and perhaps others before it: it had not expired")
	case v.First == 0:
	case s.Seq == before.Seq:
		v.Broken(s.Seq, "is there twice: one of them was inserted")
	case s.Seq < before.Seq:
		v.Broken(s.Seq, "comes behind record %d: they were reordered", before.Seq)
	case s.Seq > before.Seq+1:
		v.Broken(before.Seq+1, "was removed, as was all up to record %d", s.Seq-1)
	case s.previous != before.hash || s.previousTTL != before.ttl || s.ttl < before.ttl:
		v.Broken(s.Seq, "does not follow from the one before it: one of them was replaced")
	}
	if c := v.committed; c.Seq == s.Seq && c.Hash != s.hash {
		v.Broken(s.Seq, "is another than the one that was noted")
	}
	if v.First == 0 {
		v.First = s.Seq
	}
	v.Last, v.last, v.Report.End = s.Seq, s, Commitment{s.Seq, s.hash}
}

// End is called behind the last record with where the chain has to end: the number and hash of the last record that it has had, and when that expires.
func (v *Verifier) End(end Commitment, expires time.Time) Report {
	switch {
	case v.Last < end.Seq && (v.Last > 0 || expires.Unix() > v.now.Unix()):
		v.Broken(v.Last+1, "was removed, as was all behind it: the chain ends with record %d", end.Seq)
	case v.Last > end.Seq:
		v.Broken(end.Seq+1, "was inserted: the chain ends before it")
	case v.Last > 0 && v.last.hash != end.Hash:
		v.Broken(v.Last, "is another than the chain ends with")
	}
	v.Report.End = end
	if c := v.committed; c.Seq > end.Seq {
		v.Broken(end.Seq+1, "was removed, as was all up to record %d, which was noted", c.Seq)
	}
	return v.Report
}
