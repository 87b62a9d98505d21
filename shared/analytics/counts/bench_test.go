package counts

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/analytics"
)

// BenchmarkCall is what counting costs a request: of 1,000 deployments, each with 5 consumers.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	c := w.collector()
	var calls []analytics.Call
	for i := range 5_000 {
		call := calledBy(fmt.Sprint("c", i%5), 200+i%2*204, w.time)
		call.Deployment.Name = fmt.Sprintf("shop-main-%07x", i%1000)
		calls = append(calls, call)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Call(calls[i%len(calls)])
		}
	})
}

// BenchmarkOperation is what it costs beside, for a GraphQL operation.
func BenchmarkOperation(b *testing.B) {
	w := newWorld(b)
	c := w.collector()
	var all []analytics.Operation
	for i := range 50 {
		all = append(all, asked(fmt.Sprint("Operation", i), time.Duration(i+1)*time.Millisecond, w.time))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Operation(all[i%len(all)])
		}
	})
}

// BenchmarkOneOffOperation is what it costs where no name comes twice.
func BenchmarkOneOffOperation(b *testing.B) {
	w := newWorld(b)
	c, made := w.collector(), &flood{}
	b.ReportAllocs()
	for b.Loop() {
		c.Operation(asked(made.name("A"), time.Millisecond, w.time))
	}
}

// BenchmarkDrain is what writing costs, of a deployment with 50 operations and 1,000 calls since the last time.
func BenchmarkDrain(b *testing.B) {
	w := newWorld(b)
	c := w.collector()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range 1_000 {
			c.Call(calledBy(fmt.Sprint("c", i%20), 200, w.time))
			c.Operation(asked(fmt.Sprint("Operation", i%50), time.Duration(i+1)*time.Millisecond, w.time))
		}
		b.StartTimer()
		w.drain(c)
	}
}
