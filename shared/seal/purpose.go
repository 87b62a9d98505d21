package seal

// Fate is what becomes of the hashes of a purpose when the root key is rotated.
type Fate int

// The fates.
const (
	// Fresh hashes are made under the root key that is, and compared under all there are. What shows one
	// lives no longer than a rotation, or is asked for again.
	Fresh Fate = iota
	// Chained hashes are kept, to be looked up by. Under the n-th root key one is the keyed hash of the
	// hash under the one before, so that a kept one is renewed without its text, which nobody has.
	Chained
	// Carried hashes stay what they were under the first root key: others have published them.
	Carried
)

// purposes are all there are, with what hashes of each are for. The names are part of what is stored and never change.
var purposes = map[string]Fate{
	// Kept in the table, and looked up by who shows the text.
	"consumer-key": Chained,
	"tunnel-token": Chained,
	// The seed of the key that signs the audit log, whose public half is with everybody who verifies one.
	"audit-chain": Carried,
	// TXT records that owners of hostnames have set.
	"custom-domain": Carried,
	// The names of artifacts, which are opaque once they are given.
	"artifact": Fresh,
	// What clients and processes hold for minutes: cursors, passes, addresses of uploads.
	"list-cursor": Fresh,
	"relay-pass":  Fresh,
	"upload":      Fresh,
	// Beside an answer that is kept for a day.
	"idempotent-request": Fresh,
	// A part of a token's text, which nobody compares.
	"tunnel-account": Fresh,
	// What tells one root key from another.
	checkPurpose: Fresh,
}

const (
	hashing      = "hash/"
	checkPurpose = "root-key"
)
