package cost

import (
	"fmt"
	"strings"
)

// request is a kind of request; all figures are of one.
type request struct {
	name string
	units
	ms, memoryMB, logBytes float64
	brief                  bool // it stands in the summary
}

// gatewayKinds is how many of the kinds are requests to the gateway.
const gatewayKinds = 3

// parts are what a million of a kind costs, in the columns' order.
func (r request) parts() []float64 {
	return []float64{
		dollars(restRequest, million),
		dollars(lambdaRequest, million) + lambdaTime(million, r.ms, r.memoryMB),
		dollars(readUnit, r.reads*million),
		dollars(writeUnit, r.writes*million),
		dollars(logIntake, r.logBytes*million/1e9),
	}
}

// perMillion is what a million of a kind costs.
func (r request) perMillion() float64 { return sum(r.parts()) }

// requests returns the kinds of requests, the gateway's first.
func requests(m measured) ([]request, error) {
	var missing []string
	look := func(ledger map[string]units, row string) units {
		u, ok := ledger[row]
		if !ok {
			missing = append(missing, row)
		}
		return u
	}
	check := look(m.keys, "check a key")
	served := units{deploymentReads, 0}
	gateway := func(name string, more units) request {
		return request{
			name:  "gateway: " + name,
			units: units{served.reads + more.reads, more.writes}, ms: upstreamMS + gatewayMS,
			memoryMB: m.memoryMB["gateway"], logBytes: gatewayLog + accessLog,
		}
	}
	managed := func(ledger map[string]units, row, name string, ms float64) request {
		return request{name: name, units: look(ledger, row), ms: ms, memoryMB: m.memoryMB["consumers"], logBytes: managementLog + accessLog}
	}
	brief := func(r request) request {
		r.brief = true
		return r
	}
	out := []request{
		gateway("no key, or one that the process knows", units{}),
		gateway("a key that it has to look up", check),
		// A lease is one read and one write of one item, in a transaction.
		gateway("a known key, and a strict limit", units{1.0 / admittedPerWrite, 2.0 / admittedPerWrite}),
		brief(managed(m.operations, "ApiKeyConsumersService_read", "read a consumer", readMS)),
		managed(m.keys, "list 100 consumers", "list 100 consumers", readMS),
		managed(m.operations, "V1_deploymentStatus", "ask how a build goes", readMS),
		brief(managed(m.operations, "ApiKeyConsumersService_create", "create a consumer", changeMS)),
		brief(managed(m.keys, "create a consumer with a key, 5 tags and a manager", "create a consumer with a key, 5 tags and a manager", changeMS)),
		managed(m.operations, "ApiKeyKeysService_create", "create a key", changeMS),
		managed(m.operations, "ApiKeyConsumersService_rollKey", "roll a key", changeMS),
		managed(m.keys, "create 40 keys", "create 40 keys at once", changeMS),
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the ledgers have no rows named %s", strings.Join(missing, ", "))
	}
	if out[0].memoryMB == 0 || out[3].memoryMB == 0 {
		return nil, fmt.Errorf("%s tells no memory of the functions gateway and consumers", functionSummaries)
	}
	return out, nil
}

func requestTable(kinds []request) string {
	t := newTable("a million of", "units read", "units written", "ms", "API Gateway", "Lambda", "reads", "writes", "logs", "**$**")
	for _, r := range kinds {
		cells := []string{r.name, short(r.reads), short(r.writes), short(r.ms)}
		for _, part := range r.parts() {
			cells = append(cells, money(part))
		}
		t.row(append(cells, "**"+money(r.perMillion())+"**")...)
	}
	return t.String()
}
