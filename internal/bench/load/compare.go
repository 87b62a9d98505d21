package load

import (
	"context"
	"fmt"
	"time"
)

// Subject is a load that is compared with other loads, and the process that serves it.
type Subject struct {
	Name string
	Load
	Process Process // the process whose processor time is measured; nil for none
}

// Round contains the results of a subject's load in one round.
type Round struct {
	CPU  float64 // processor time of one request, in µs
	Rate float64 // requests a second
	P50  time.Duration
	P99  time.Duration
}

// Figure returns a value of a round.
type Figure func(Round) float64

// CPU returns the processor time of one request, in µs.
func CPU(r Round) float64 { return r.CPU }

// Rate returns the number of requests a second.
func Rate(r Round) float64 { return r.Rate }

// P50 returns the median of the latency, in milliseconds.
func P50(r Round) float64 { return r.P50.Seconds() * 1e3 }

// P99 returns the 99th percentile of the latency, in milliseconds.
func P99(r Round) float64 { return r.P99.Seconds() * 1e3 }

// Rounds are the results of a subject's load, by round.
type Rounds []Round

// Median returns the median of a figure over the rounds.
func (r Rounds) Median(f Figure) float64 {
	return r.median(func(i int) float64 { return f(r[i]) })
}

// Ratio divides the figure of each round by the other subject's figure in the same round, and returns the median of the
// quotients.
func (r Rounds) Ratio(other Rounds, f Figure) float64 {
	return r.median(func(i int) float64 { return f(r[i]) / f(other[i]) })
}

// Difference subtracts from the figure of each round the other subject's figure in the same round, and returns the
// median of the differences.
func (r Rounds) Difference(other Rounds, f Figure) float64 {
	return r.median(func(i int) float64 { return f(r[i]) - f(other[i]) })
}

func (r Rounds) median(value func(i int) float64) float64 {
	all := make([]float64, len(r))
	for i := range r {
		all[i] = value(i)
	}
	return Median(all)
}

// Compare measures the subjects in turns, so that a busy machine slows all of them. It does not count the first round,
// which fills caches. Compare returns an error if a load fails, or if there is nothing to compare: no round, or a
// process that used no processor time for its requests.
func Compare(ctx context.Context, rounds int, subjects ...Subject) ([]Rounds, error) {
	if rounds < 1 {
		return nil, fmt.Errorf("%d rounds: compare in at least one round", rounds)
	}
	results := make([]Rounds, len(subjects))
	for round := range rounds + 1 {
		for i, s := range subjects {
			result, err := s.round(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			if round > 0 {
				results[i] = append(results[i], result)
			}
		}
	}
	return results, nil
}

// round sends the load once.
func (s Subject) round(ctx context.Context) (measured Round, err error) {
	var before, after time.Duration
	if s.Process != nil {
		if before, err = s.Process.CPU(); err != nil {
			return measured, err
		}
	}
	result, err := s.Send(ctx)
	if err != nil {
		return measured, err
	}
	if s.Process != nil {
		if after, err = s.Process.CPU(); err != nil {
			return measured, err
		}
		if after <= before {
			return measured, fmt.Errorf("its process used no processor time for %d requests, so another process served them",
				result.Requests)
		}
	}
	return Round{
		CPU: float64((after - before).Nanoseconds()) / 1e3 / float64(result.Requests), Rate: result.Rate(),
		P50: result.Percentile(50), P99: result.Percentile(99),
	}, nil
}
