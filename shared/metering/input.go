package metering

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/metadata"
	"github.com/gatewright/gatewright/shared/store"
)

// The bounds of what a caller may store. Ids of elsewhere are parts of keys, of which the table takes 1,024
// bytes.
const (
	MaxLabelChars    = 120
	MaxExternalChars = 255
	// MaxMeters is how many meters a plan has, MaxPlansOfOne how many plans a subscription.
	MaxMeters     = 50
	MaxPlansOfOne = 10
	// MaxUnits is the most units of a meter: what every reader of JSON keeps exact (RFC 7493,
	// 2.2).
	MaxUnits     = 1<<53 - 1
	MaxTrialDays = 3650
)

// The years that a date may lie in: four digits in every zone, and a period on.
const (
	firstYear = 1900
	lastYear  = 2999
)

var meterPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// problems gathers what is wrong with an input. No message repeats a value.
type problems struct{ fault.Fields }

func (p *problems) text(field, text string, most int) {
	switch n := utf8.RuneCountInString(text); {
	case n == 0 || n > most:
		p.Add(field, "has to have 1 to %d characters", most)
	case !utf8.ValidString(text) || bytes.IndexFunc([]byte(text), unicode.IsControl) >= 0:
		p.Add(field, "has to be UTF-8 text without control characters")
	}
}

func (p *problems) date(field string, at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	t := store.Instant(*at)
	if t.Year() < firstYear || t.Year() > lastYear {
		p.Add(field, "has to lie in the years %d to %d", firstYear, lastYear)
	}
	return &t
}

func (p *problems) metadata(raw json.RawMessage) string { return metadata.Read(&p.Fields, raw) }

// prorate gives the part of a quota as the decimal number that was written: 0.29 of 100 is 29, which it
// is not as a binary fraction.
func (p *problems) prorate(part *float64) string {
	if part == nil {
		return ""
	}
	if !(*part >= 0 && *part <= 1) { // which is so for NaN too
		p.Add("prorate", "has to be a number from 0 to 1")
		return ""
	}
	return strconv.FormatFloat(*part, 'f', -1, 64)
}

// shareOf is the whole units of the part of a quota.
func shareOf(units int64, part string) int64 {
	r, ok := new(big.Rat).SetString(part)
	if !ok {
		return units
	}
	r.Mul(r, new(big.Rat).SetInt64(units))
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

// Status is what a subscription is.
type Status string

// The statuses: those of specification 3, and two that its samples have.
const (
	Active            Status = "active"
	Inactive          Status = "inactive"
	Incomplete        Status = "incomplete"
	IncompleteExpired Status = "incomplete-expired"
	Trialing          Status = "trialing"
	PastDue           Status = "past-due"
	Canceled          Status = "canceled"
	Unpaid            Status = "unpaid"
	Paused            Status = "paused"
)

func (s Status) known() bool {
	return slices.Contains([]Status{Active, Inactive, Incomplete, IncompleteExpired, Trialing, PastDue, Canceled, Unpaid, Paused}, s)
}

// ended reports whether a subscription of the status has come to its end. It may be brought back.
func (s Status) ended() bool { return s == Canceled || s == IncompleteExpired }

func (p *problems) status(field string, s Status) {
	if !s.known() {
		p.Add(field, "has to be active, inactive, incomplete, incomplete-expired, trialing, past-due, canceled, unpaid or paused")
	}
}
