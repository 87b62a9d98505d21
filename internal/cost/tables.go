package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tables returns the document's tables by name, as Markdown. Its error names what is missing: a row of a ledger, or the
// tasks or the memory of a service or function.
func tables(m measured) (map[string]string, error) {
	kinds, err := requestKinds(m)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"relay", "gateway"} {
		if m.services[name].tasks == 0 {
			return nil, fmt.Errorf("cost: no summary of infra has the tasks of the service %s", name)
		}
	}
	return map[string]string{
		"relay":        billTable(serviceItems(m, "relay")),
		"gateways":     billTable(gateways(m)),
		"check":        billTable(checkItems(m, kinds)),
		"bedrock":      questionTable(bedrock()),
		"prices":       priceTable(),
		"requests":     requestTable(kinds),
		"idle":         idleTable(m),
		"busy":         billTable(busy(m, kinds)),
		"containers":   containerTable(m, kinds),
		"slow answers": breakEvenTable(m),
		"summary":      summaryTable(m, kinds),
	}, nil
}

func priceTable() string {
	t := newTable("what", "$", "for")
	for _, p := range prices() {
		amount := strconv.FormatFloat(p.dollars, 'f', -1, 64)
		t.row(p.text, amount, quantity(p.per)+" "+p.unit)
	}
	return t.String()
}

// table is a Markdown table. Its first column is aligned to the left, and the others to the right.
type table struct{ lines []string }

func newTable(columns ...string) *table {
	t := &table{}
	t.row(columns...)
	t.lines = append(t.lines, "|---|"+strings.Repeat("--:|", len(columns)-1))
	return t
}

func (t *table) row(cells ...string) { t.lines = append(t.lines, "| "+strings.Join(cells, " | ")+" |") }

// String returns the table in the form of the document.
func (t *table) String() string { return strings.Join(t.lines, "\n") + "\n" }

func sum(parts []float64) (total float64) {
	for _, p := range parts {
		total += p
	}
	return total
}

// formatDollars formats an amount to the cent.
func formatDollars(amount float64) string { return strconv.FormatFloat(amount, 'f', 2, 64) }

// formatNumber formats a number without trailing zeros.
func formatNumber(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// quantity formats a number: in millions from a million on, and as an integer with a comma from 10,000 on.
func quantity(n float64) string {
	switch {
	case n >= million:
		return formatNumber(n/million) + " million"
	case n < 10_000:
		return formatNumber(n)
	}
	return fmt.Sprintf("%d,%03d", int(n)/1000, int(n)%1000)
}
