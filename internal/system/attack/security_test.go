package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/golden"
)

// The tables in docs/security.md, one for each class, are between these marks. `make goldens` writes the text between them.
var peerTable = regexp.MustCompile(`(?s)(<!-- table: ([a-z ]+) -->\n).*?(<!-- end of the table -->)`)

// TestSecurityPageComparesPeers compares the tables of docs/security.md with the behavior of nginx and ReverseProxy.
// TestNoAttackSucceeds checks what the page says about the product.
func TestSecurityPageComparesPeers(t *testing.T) {
	program, err := findNginx(t.Context())
	if errors.Is(err, errNoNginx) {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	u, err := listenUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	compared := map[string][]attempt{}
	var all []attempt
	for _, a := range cases() {
		if !a.productOnly {
			all = append(all, a)
			compared[a.class] = append(compared[a.class], a)
		}
	}
	outcomes := map[string][]string{}
	for _, start := range []func() (target, func(), error){
		func() (target, func(), error) { return nginx(t.Context(), program, u) },
		func() (target, func(), error) { return reverseProxy(t.Context(), u) },
	} {
		peer, stop, err := start()
		if err != nil {
			t.Fatal(err)
		}
		results, err := try(t.Context(), peer, all, u)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			outcomes[r.class+" "+r.name] = append(outcomes[r.class+" "+r.name], r.got)
		}
	}

	page := filepath.Join("..", "..", "..", "docs", "security.md")
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	after := peerTable.ReplaceAllStringFunc(string(before), func(s string) string {
		parts := peerTable.FindStringSubmatch(s)
		written[parts[2]] = true
		var table strings.Builder
		fmt.Fprintf(&table, "\n| what is tried | Gatewright | nginx %s | ReverseProxy |\n|---|---|---|---|\n", nginxVersion)
		for _, a := range compared[parts[2]] {
			peers := outcomes[a.class+" "+a.name]
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", a.name, a.want, peers[0], peers[1])
		}
		return parts[1] + table.String() + "\n" + parts[3]
	})
	for class := range compared {
		if !written[class] {
			t.Errorf("docs/security.md has no table of %s, want one", class)
		}
	}
	golden.Equal(t, page, after)
}
