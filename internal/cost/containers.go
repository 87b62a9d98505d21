package cost

import (
	"fmt"
	"math"
)

// gateways is what gateways as processes cost a month, as an installation with
// -c gateway=both has them, with one unit of the load balancer's capacity: whatever
// they serve within it.
func gateways(m measured) []item {
	return append(serviceOf(m, "gateway"), item{
		"the load balancer's capacity", fmt.Sprintf("1 × %d hours", hoursPerMonth), dollars(networkUnit, hoursPerMonth),
	})
}

// tier is what a unit costs from a number of a month on.
type tier struct {
	from  float64
	price string
}

// Tiers of what is most of a busy gateway's bill.
var (
	restTiers = []tier{{0, restRequest}, {333 * million, restSecond}, {1000 * million, restThird}, {20_000 * million, restLast}}
	logTiers  = []tier{{0, logIntake}, {10_000, logSecond}, {30_000, logThird}}
)

// tiered is what a quantity of a month costs, each part of it at its tier's price.
func tiered(tiers []tier, quantity float64) (total float64) {
	for i, t := range tiers {
		most := math.Inf(1)
		if i+1 < len(tiers) {
			most = tiers[i+1].from
		}
		total += dollars(t.price, max(0, min(quantity, most)-t.from))
	}
	return total
}

// served is a month of requests at a mean rate a second, by the function or by processes: all of it, and parts that are told.
type served struct {
	all, logs, traces float64
	tasks             float64
}

// byFunction is a month by the function. The table, which is asked as often by a process, is left out.
// X-Ray records what Lambda samples; stages of API Gateway are not traced, and processes send it nothing.
func byFunction(r request, rate float64) served {
	n := rate * secondsPerMonth
	out := served{logs: tiered(logTiers, n*gatewayLog/1e9) + dollars(logIntake, n*accessLog/1e9), traces: dollars(trace, sampled(rate)*secondsPerMonth)}
	out.all = tiered(restTiers, n) + dollars(lambdaRequest, n) + lambdaTime(n, r.ms, r.memoryMB) + out.logs + out.traces
	return out
}

// byProcesses is a month by as many processes as keep their processors as busy as they are kept, the fewest at
// least, with what the load balancer passes on. Their lines are without what Lambda writes beside the function's.
func byProcesses(m measured, rate float64) served {
	of := m.services["gateway"]
	n := rate * secondsPerMonth
	tasks := max(of.tasks, math.Ceil(rate*requestCPUus/million/(of.cpuUnits/1024*busyShare)))
	units := max(1, rate/requestsAConnection/800, rate*3600*requestKB/1e6)
	out := served{logs: dollars(logIntake, n*(gatewayLog-platformLog)/1e9), tasks: tasks}
	more := tasks - of.tasks
	out.all = bill(gateways(m)) + dollars(networkUnit, (units-1)*hoursPerMonth) + dollars(zoneTraffic, n*requestKB/1e6*otherZone) + out.logs +
		dollars(processorHour, more*hoursPerMonth*of.cpuUnits/1024) + dollars(memoryHour, more*hoursPerMonth*of.memoryMB/1024) + dollars(addressHour, more*hoursPerMonth)
	return out
}

// functionPerMillion is what a million requests cost by the function alone, in the first tier and without traces.
func functionPerMillion(r request) float64 {
	return dollars(restRequest, million) + dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB) +
		dollars(logIntake, (gatewayLog+accessLog)*million/1e9)
}

func containerTable(m measured, kinds []request) string {
	t := newTable("requests a second, on average", "millions a month", "Lambda", "of it X-Ray", "of it logs", "processes", "how many", "of it logs")
	for _, rate := range []float64{1, 2, 5, 10, 100, 1000, 10_000} {
		f, p := byFunction(kinds[0], rate), byProcesses(m, rate)
		t.row(quantity(rate), money(rate*secondsPerMonth/million), money(f.all), money(f.traces), money(f.logs), money(p.all), short(p.tasks), money(p.logs))
	}
	return t.String()
}

// breakEven is the mean rate of requests, a second, from which processes are
// cheaper than Lambda.
func breakEven(m measured, r request) float64 {
	low, high := 0.0, 1000.0
	for range 60 {
		middle := (low + high) / 2
		if byFunction(r, middle).all < byProcesses(m, middle).all {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

func breakEvenTable(m measured) string {
	t := newTable("an upstream answers in", "a million in Lambda", "processes are cheaper from")
	for _, ms := range []float64{10, upstreamMS, 200, 1000} {
		r := request{ms: ms + gatewayMS, memoryMB: m.memoryMB["gateway"]}
		t.row(short(ms)+" ms", "$"+money(functionPerMillion(r)), fmt.Sprintf("%.1f a second", breakEven(m, r)))
	}
	return t.String()
}
