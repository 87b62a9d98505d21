package cost

import "fmt"

// layout is a way to run the gateway in containers.
type layout struct {
	name, why                          string
	tasks, processors, memoryGB        float64
	addresses, translators, loadsUnits float64
}

func layouts() []layout {
	return []layout{
		{"small", "two tasks with public addresses", 2, 0.25, 0.5, 4, 0, 1},
		{"private", "two tasks in private networks, a NAT gateway in each of two zones", 2, 1, 2, 4, 2, 1},
	}
}

// monthly is what a layout costs, whatever it serves within its capacity.
func (l layout) monthly() float64 {
	return sum([]float64{
		dollars(processorHour, l.tasks*l.processors*hoursPerMonth), dollars(memoryHour, l.tasks*l.memoryGB*hoursPerMonth),
		dollars(balancerHour, hoursPerMonth), dollars(balancerUnit, l.loadsUnits*hoursPerMonth),
		dollars(addressHour, l.addresses*hoursPerMonth), dollars(translatorHour, l.translators*hoursPerMonth),
	})
}

func layoutTable() string {
	t := newTable("layout", "tasks", "load balancer, 1 LCU", "IPv4 addresses", "NAT gateways", "$ a month")
	for _, l := range layouts() {
		tasks := dollars(processorHour, l.tasks*l.processors*hoursPerMonth) + dollars(memoryHour, l.tasks*l.memoryGB*hoursPerMonth)
		t.row(l.name+": "+l.why, fmt.Sprintf("%g × %g vCPU, %g GB: %s", l.tasks, l.processors, l.memoryGB, money(tasks)),
			money(dollars(balancerHour, hoursPerMonth)+dollars(balancerUnit, l.loadsUnits*hoursPerMonth)),
			fmt.Sprintf("%g: %s", l.addresses, money(dollars(addressHour, l.addresses*hoursPerMonth))),
			fmt.Sprintf("%g: %s", l.translators, money(dollars(translatorHour, l.translators*hoursPerMonth))),
			"**"+money(l.monthly())+"**")
	}
	return t.String()
}

// functionPerMillion is what of a million requests only a Lambda costs: the
// table is asked, and our line is written, from a container too.
func functionPerMillion(r request) float64 {
	return dollars(restRequest, million) + dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB) +
		dollars(logIntake, platformLog*million/1e9)
}

func containerTable(kinds []request) string {
	t := newTable("requests a second, on average", "millions a month", "Lambda", "small", "private")
	for _, rate := range []float64{1, 2, 5, 10, 20, 50, 100} {
		millions := rate * secondsPerMonth / million
		cells := []string{short(rate), money(millions), money(functionPerMillion(kinds[0]) * millions)}
		for _, l := range layouts() {
			cells = append(cells, money(l.monthly()))
		}
		t.row(cells...)
	}
	return t.String()
}

// breakEven is the mean rate of requests, a second, from which a layout is
// cheaper than Lambda.
func breakEven(l layout, r request) float64 {
	return l.monthly() / functionPerMillion(r) * million / secondsPerMonth
}

func breakEvenTable(m measured) string {
	t := newTable("an upstream answers in", "a million in Lambda", "small is cheaper from", "private is cheaper from")
	for _, ms := range []float64{10, upstreamMS, 200, 1000} {
		r := request{ms: ms + gatewayMS, memoryMB: m.memoryMB["gateway"]}
		cells := []string{short(ms) + " ms", "$" + money(functionPerMillion(r))}
		for _, l := range layouts() {
			cells = append(cells, fmt.Sprintf("%.1f a second", breakEven(l, r)))
		}
		t.row(cells...)
	}
	return t.String()
}
