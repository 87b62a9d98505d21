package counts

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// BenchmarkCall measures the cost of counting a request, for 1,000 deployments with one consumer each.
func BenchmarkCall(b *testing.B) {
	fx := newFixture(b)
	c := fx.collector()
	var calls []analytics.Call
	for i := range 5_000 {
		call := newCall(fmt.Sprint("c", i%5), 200+i%2*204, fx.time)
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

// BenchmarkOperation measures the additional cost of a GraphQL operation.
func BenchmarkOperation(b *testing.B) {
	fx := newFixture(b)
	c := fx.collector()
	var all []analytics.Operation
	for i := range 50 {
		all = append(all, newOperation(fmt.Sprint("Operation", i), time.Duration(i+1)*time.Millisecond, fx.time))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Operation(all[i%len(all)])
		}
	})
}

// BenchmarkOneOffOperation measures the additional cost of a GraphQL operation if each name occurs only once.
func BenchmarkOneOffOperation(b *testing.B) {
	fx := newFixture(b)
	c, generator := fx.collector(), &nameGenerator{}
	b.ReportAllocs()
	for b.Loop() {
		c.Operation(newOperation(generator.name("A"), time.Millisecond, fx.time))
	}
}

// BenchmarkDrain measures the cost of writing the counts of one deployment: 1,000 calls, and 1,000 operations with 50
// names.
func BenchmarkDrain(b *testing.B) {
	fx := newFixture(b)
	c := fx.collector()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range 1_000 {
			c.Call(newCall(fmt.Sprint("c", i%20), 200, fx.time))
			c.Operation(newOperation(fmt.Sprint("Operation", i%50), time.Duration(i+1)*time.Millisecond, fx.time))
		}
		b.StartTimer()
		fx.drain(c)
	}
}
