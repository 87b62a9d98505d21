package files

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki"
)

// update plans to change the fields of an object that differ from the file.
func (p *planner) update(ctx context.Context, o *object, remote *remoteObject) error {
	if o.kind.List == "" {
		return nil
	}
	differing, ok := p.differences(o, remote)
	for name := range o.fields {
		if p.isSecret(o, remote, name) && p.fieldsByKind[o.kind].byName[name].OnUpdate && !slices.Contains(differing, name) {
			p.plan.NotCompared++
		}
	}
	if !ok || len(differing) == 0 {
		return p.updateSeparate(ctx, o, remote)
	}
	if err := p.ensureCurrent(ctx, remote); err != nil {
		return deletedMeanwhile(remote, err)
	}
	if differing, ok = p.differences(o, remote); ok && len(differing) > 0 {
		c := newChange(Update, remote, o.kind.Update)
		p.setCondition(&c, remote)
		for _, name := range differing {
			p.setField(&c, o, name, remote.fields[name])
		}
		p.plan.Changes = append(p.plan.Changes, c)
	}
	return p.updateSeparate(ctx, o, remote)
}

// differences returns the names of the fields to change. It reports fields that cannot be changed, required fields that
// are null, secrets in plain text, certificates that are invalid or differ from the existing one, and references that
// cannot be read. ok is false if it has reported a problem.
func (p *planner) differences(o *object, remote *remoteObject) (names []string, ok bool) {
	k, problemCount := o.kind, len(p.problems)
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		fv, f := o.fields[name], p.fieldsByKind[k].byName[name]
		switch {
		case k.SeparateField != nil && name == k.SeparateField.Field:
			continue
		case p.isSecret(o, remote, name):
			if fv.ref == nil {
				p.addProblem(fv.at, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.",
					name)
			} else if p.options.SetSecrets && f.OnUpdate {
				names = append(names, name)
			}
			continue
		case slices.Contains(k.writeOnlyFields(), name):
			p.checkCertificate(o, remote, name)
			continue
		}
		value, readable := p.plainValue(fv)
		if !readable || k.equalValues(f, value, remote.fields[name]) {
			continue
		}
		if !f.OnUpdate {
			p.addProblem(fv.at, "%s of the %s %s is %s, and never changes: delete it first, or give the new one another name.",
				name, k.Singular, o.name, displayValue(remote.fields[name]))
			continue
		}
		if string(value) == "null" && f.Required {
			p.addProblem(fv.at, "A %s has %s: it cannot be taken away.", k.Singular, name)
			continue
		}
		names = append(names, name)
	}
	return names, len(p.problems) == problemCount
}

// isSecret reports whether a field is a secret, according to the file or the existing object.
func (p *planner) isSecret(o *object, remote *remoteObject, name string) bool {
	k := o.kind
	return p.files.isSecret(o, name) || k.Secret != "" && name == k.Secret && string(remote.fields[k.SecretIf]) == "true"
}

// writeOnlyFields returns the fields that are not secrets, but that the API never returns.
func (k *Kind) writeOnlyFields() []string {
	if k.Member == "caCertificates" || k.Member == "mtlsCertificates" {
		return []string{certificateField}
	}
	return nil
}

const certificateField = "certificate"

// checkCertificate compares a certificate with the certificateInfo that the API returns, and reports a difference. If
// the certificate cannot be read, it compares nothing: an export does not write the file with the certificate.
func (p *planner) checkCertificate(o *object, remote *remoteObject, name string) {
	fv := o.fields[name]
	text := stringValue(fv.value)
	if fv.ref != nil {
		var err error
		if text, err = fv.ref.Value(p.options.Getenv); err != nil {
			return
		}
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		p.addProblem(fv.at, "This is no certificate in PEM.")
		return
	}
	first, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		p.addProblem(fv.at, "This is no certificate in PEM.")
		return
	}
	info := pki.NewInfo(first)
	var existing struct {
		SerialNumber, Subject, Issuer string
		ValidTo                       time.Time
	}
	if json.Unmarshal(remote.fields[infoField], &existing) != nil {
		return
	}
	if existing.SerialNumber != info.SerialNumber || existing.Subject != info.Subject || existing.Issuer != info.Issuer ||
		!existing.ValidTo.Equal(first.NotAfter) {
		p.addProblem(fv.at, "The %s %s is another certificate, and never changes: give the new one another name, and "+
			"delete this one when nothing needs it.", o.kind.Singular, o.name)
	}
}

// infoField is the member of a response that describes a certificate.
const infoField = "certificateInfo"

// updateSeparate plans to change the SeparateField field if it differs from the file.
func (p *planner) updateSeparate(ctx context.Context, o *object, remote *remoteObject) error {
	if o.kind.SeparateField == nil {
		return nil
	}
	fv, present := o.fields[o.kind.SeparateField.Field]
	if !present {
		p.addUnchanged(remote)
		return nil
	}
	existing, etag, err := p.readSeparate(ctx, remote)
	if err != nil {
		return deletedMeanwhile(remote, err)
	}
	if o.kind.equalValues(p.fieldsByKind[o.kind].byName[o.kind.SeparateField.Field], fv.value, existing) {
		p.addClaim(remote, fv.at, "", existing, existing)
		return nil
	}
	p.writeSeparate(o, remote, existing, etag)
	return nil
}

// writeSeparate plans to write the SeparateField field, unless the object is new and the field is empty.
func (p *planner) writeSeparate(o *object, remote *remoteObject, existing Value, etag string) {
	sep := o.kind.SeparateField
	if sep == nil || remote.isNew && isEmpty(o.fields[sep.Field].value) {
		return
	}
	c := newChange(Update, remote, sep.Write)
	for name, value := range sep.Fixed {
		c.Arguments[name] = value
	}
	value := o.fields[sep.Field].value
	if string(value) == "null" {
		value = Value("[]")
	}
	c.Arguments[sep.Field] = value
	c.Fields = []FieldChange{{Name: sep.Field, Before: existing, After: value}}
	c.Before = map[string]Value{sep.Field: existing}
	c.IfMatch = etag
	p.plan.Changes = append(p.plan.Changes, c)
	p.addClaim(remote, o.fields[sep.Field].at, sep.Write, existing, value)
}

// displayValue returns the text of a value, with a limited length.
func displayValue(v Value) string {
	if len(v) == 0 {
		return "not set"
	}
	return cutText(string(v))
}
