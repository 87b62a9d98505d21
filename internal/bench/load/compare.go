package load

import (
	"context"
	"fmt"
	"time"
)

// Subject is a server that is compared with others.
type Subject struct {
	Name string
	Load
	Process Process // whose processor time is measured, nil for none
}

// Round is what the load of a subject took in one round.
type Round struct {
	CPU  float64 // processor time of one request, in µs
	Rate float64 // requests a second
	P50  time.Duration
	P99  time.Duration
}

// Figure is a value of a round.
type Figure func(Round) float64

// CPU is the processor time of one request, in µs.
func CPU(r Round) float64 { return r.CPU }

// Rate is the requests a second.
func Rate(r Round) float64 { return r.Rate }

// P50 is the time within which half of the requests were answered, in milliseconds.
func P50(r Round) float64 { return r.P50.Seconds() * 1e3 }

// P99 is the time within which 99 of 100 requests were answered, in milliseconds.
func P99(r Round) float64 { return r.P99.Seconds() * 1e3 }

// Rounds are what the loads of a subject took, by round.
type Rounds []Round

// Median returns the median of a figure.
func (r Rounds) Median(f Figure) float64 {
	return r.each(func(i int) float64 { return f(r[i]) })
}

// Times returns the median of the ratios to another subject in the same round.
func (r Rounds) Times(other Rounds, f Figure) float64 {
	return r.each(func(i int) float64 { return f(r[i]) / f(other[i]) })
}

// More returns the median of the differences to another subject in the same round.
func (r Rounds) More(other Rounds, f Figure) float64 {
	return r.each(func(i int) float64 { return f(r[i]) - f(other[i]) })
}

func (r Rounds) each(value func(i int) float64) float64 {
	all := make([]float64, len(r))
	for i := range r {
		all[i] = value(i)
	}
	return Median(all)
}

// Compare measures the subjects in turns, so that a busy machine slows all of them. A first round, which fills caches, is not
// counted. It returns an error if there is nothing to compare: no round, or a process that did nothing for its requests.
func Compare(ctx context.Context, rounds int, subjects ...Subject) ([]Rounds, error) {
	if rounds < 1 {
		return nil, fmt.Errorf("%d rounds: compare in one round at least", rounds)
	}
	all := make([]Rounds, len(subjects))
	for round := range rounds + 1 {
		for i, s := range subjects {
			one, err := s.round(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			if round > 0 {
				all[i] = append(all[i], one)
			}
		}
	}
	return all, nil
}

func (s Subject) round(ctx context.Context) (one Round, err error) {
	var before, after time.Duration
	if s.Process != nil {
		if before, err = s.Process.CPU(); err != nil {
			return one, err
		}
	}
	result, err := s.Send(ctx)
	if err != nil {
		return one, err
	}
	if s.Process != nil {
		if after, err = s.Process.CPU(); err != nil {
			return one, err
		}
		if after <= before {
			return one, fmt.Errorf("its process used no processor time for %d requests: another one has answered them", result.Requests)
		}
	}
	return Round{
		CPU: float64((after - before).Nanoseconds()) / 1e3 / float64(result.Requests), Rate: result.Rate(),
		P50: result.Percentile(50), P99: result.Percentile(99),
	}, nil
}
