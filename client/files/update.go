package files

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/pki"
)

// update plans to change those fields of an object that are not as a file has them.
func (p *planner) update(ctx context.Context, o *object, s *seen) error {
	if o.kind.List == "" {
		return nil
	}
	differs, ok := p.differences(o, s)
	for name := range o.fields {
		if p.hidden(o, s, name) && p.kinds[o.kind].all[name].Changed && !slices.Contains(differs, name) {
			p.plan.NotCompared++
		}
	}
	if !ok || len(differs) == 0 {
		return p.updateApart(ctx, o, s)
	}
	if err := p.sure(ctx, s); err != nil {
		return went(s, err)
	}
	if differs, ok = p.differences(o, s); ok && len(differs) > 0 {
		c := change(Update, s, o.kind.Update)
		p.condition(&c, s)
		for _, name := range differs {
			p.give(&c, o, name, s.fields[name])
		}
		p.plan.Changes = append(p.plan.Changes, c)
	}
	return p.updateApart(ctx, o, s)
}

// differences are the fields that are to change. One that never can is told, and so are values that cannot be compared.
func (p *planner) differences(o *object, s *seen) (names []string, ok bool) {
	k, before := o.kind, len(p.problems)
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		g, f := o.fields[name], p.kinds[k].all[name]
		switch {
		case k.Apart != nil && name == k.Apart.Field:
			continue
		case p.hidden(o, s, name):
			if g.from == nil {
				p.problem(g.at, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.", name)
			} else if p.o.SetSecrets && f.Changed {
				names = append(names, name)
			}
			continue
		case slices.Contains(k.unread(), name):
			p.certificate(o, s, name)
			continue
		}
		value, read := p.literal(g)
		if !read || k.same(f, value, s.fields[name]) {
			continue
		}
		if !f.Changed {
			p.problem(g.at, "%s of the %s %s is %s, and never changes: delete it first, or give the new one another name.", name, k.One, o.name, shown(s.fields[name]))
			continue
		}
		if string(value) == "null" && f.Needed {
			p.problem(g.at, "A %s has %s: it cannot be taken away.", k.One, name)
			continue
		}
		names = append(names, name)
	}
	return names, len(p.problems) == before
}

// hidden reports whether a field is a secret, by the file or by what is there.
func (p *planner) hidden(o *object, s *seen, name string) bool {
	k := o.kind
	return p.files.secret(o, name) || k.Secret != "" && name == k.Secret && string(s.fields[k.SecretIf]) == "true"
}

// unread are the fields that the API never shows.
func (k *Kind) unread() []string {
	if k.Member == "caCertificates" || k.Member == "mtlsCertificates" {
		return []string{certificateField}
	}
	return nil
}

const certificateField = "certificate"

// certificate compares a certificate with what the API says of the one that it has. Where the file is not at hand, as after an export,
// nothing is compared.
func (p *planner) certificate(o *object, s *seen, name string) {
	g := o.fields[name]
	text := textOf(g.value)
	if g.from != nil {
		var err error
		if text, err = g.from.Value(p.o.Getenv); err != nil {
			return
		}
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		p.problem(g.at, "This is no certificate in PEM.")
		return
	}
	first, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		p.problem(g.at, "This is no certificate in PEM.")
		return
	}
	info := pki.InfoOf(first)
	var has struct {
		SerialNumber, Subject, Issuer string
		ValidTo                       time.Time
	}
	if json.Unmarshal(s.fields[infoField], &has) != nil {
		return
	}
	if has.SerialNumber != info.SerialNumber || has.Subject != info.Subject || has.Issuer != info.Issuer || !has.ValidTo.Equal(first.NotAfter) {
		p.problem(g.at, "The %s %s is another certificate, and never changes: give the new one another name, and delete this one when nothing needs it.", o.kind.One, o.name)
	}
}

// infoField is what the API tells of a certificate.
const infoField = "certificateInfo"

// updateApart compares the field that has operations of its own.
func (p *planner) updateApart(ctx context.Context, o *object, s *seen) error {
	if o.kind.Apart == nil {
		return nil
	}
	g, given := o.fields[o.kind.Apart.Field]
	if !given {
		p.stays(s)
		return nil
	}
	has, tag, err := p.apart(ctx, s)
	if err != nil {
		return went(s, err)
	}
	if o.kind.same(p.kinds[o.kind].all[o.kind.Apart.Field], g.value, has) {
		p.claims(s, g.at, "", has, has)
		return nil
	}
	p.writeApart(o, s, has, tag)
	return nil
}

// writeApart plans to write the field that has operations of its own.
func (p *planner) writeApart(o *object, s *seen, has Value, tag string) {
	a := o.kind.Apart
	if a == nil || s.made && empty(o.fields[a.Field].value) {
		return
	}
	c := change(Update, s, a.Write)
	for name, value := range a.Fixed {
		c.Arguments[name] = value
	}
	value := o.fields[a.Field].value
	if string(value) == "null" {
		value = Value("[]")
	}
	c.Arguments[a.Field] = value
	c.Fields = []FieldChange{{Name: a.Field, Before: has, After: value}}
	c.Before = map[string]Value{a.Field: has}
	c.IfMatch = tag
	p.plan.Changes = append(p.plan.Changes, c)
	p.claims(s, o.fields[a.Field].at, a.Write, has, value)
}

// shown is a value for a person, bounded.
func shown(v Value) string {
	if len(v) == 0 {
		return "not set"
	}
	return cutText(string(v))
}
