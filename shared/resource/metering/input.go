package metering

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/metadata"
)

// The limits of stored values. External ids and customer keys are parts of partition keys, which the table limits to
// 2,048 bytes.
const (
	MaxLabelChars    = 120
	MaxExternalChars = 255
	// MaxMeters is the maximum number of meters of a plan. MaxPlansPerSubscription is the maximum number of plans of a subscription.
	MaxMeters               = 50
	MaxPlansPerSubscription = 10
	// MaxUnits is the maximum number of units of a meter. Every JSON reader represents numbers up to MaxUnits exactly
	// (RFC 7493, 2.2).
	MaxUnits     = 1<<53 - 1
	MaxTrialDays = 3650
)

// firstYear and lastYear limit dates, so that the year of a date and the year one period later have four digits in
// every time zone.
const (
	firstYear = 1900
	lastYear  = 2999
)

var meterPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// problems collects the validation errors of an input. No message repeats a value.
type problems struct{ fault.Fields }

func (p *problems) text(field, text string, maxChars int) {
	switch n := utf8.RuneCountInString(text); {
	case n == 0 || n > maxChars:
		p.Add(field, "has to have 1 to %d characters", maxChars)
	case !utf8.ValidString(text) || bytes.IndexFunc([]byte(text), unicode.IsControl) >= 0:
		p.Add(field, "has to be UTF-8 text without control characters")
	}
}

// date validates a time. It returns the time rounded down to milliseconds, or nil if at is nil.
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

// prorate validates the part of a quota and returns it as the decimal number in the request, "" if it is nil or
// invalid. 0.29 of 100 is then exactly 29; a binary fraction would be inexact.
func (p *problems) prorate(fraction *float64) string {
	if fraction == nil {
		return ""
	}
	if !(*fraction >= 0 && *fraction <= 1) { // also true for NaN
		p.Add("prorate", "has to be a number from 0 to 1")
		return ""
	}
	return strconv.FormatFloat(*fraction, 'f', -1, 64)
}

// prorate returns the given fraction of units, rounded down, or all units if fraction is "".
func prorate(units int64, fraction string) int64 {
	r, ok := new(big.Rat).SetString(fraction)
	if !ok {
		return units
	}
	r.Mul(r, new(big.Rat).SetInt64(units))
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

func (p *problems) status(field string, s Status) {
	if !s.valid() {
		p.Add(field, "has to be active, inactive, incomplete, incomplete-expired, trialing, past-due, canceled, "+
			"unpaid or paused")
	}
}
