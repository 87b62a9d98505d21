package seal

// RotationPolicy says what happens to the hashes of a purpose when the root key is rotated.
type RotationPolicy int

// The rotation policies.
const (
	// Fresh hashes are computed under the current root key, and compared under all root keys of the ring.
	// Use Fresh for a text whose hash is needed only until the rotation ends, or that a client can request again.
	Fresh RotationPolicy = iota
	// Chained hashes are stored for lookups. Under each root key after the first, the
	// hash of a text is the keyed hash of the text's hash under the previous root
	// key. So a stored hash can be renewed without its text, which is not stored.
	Chained
	// Pinned hashes are computed under the first root key forever, because people outside
	// the installation keep the hashes, or values that are derived from them.
	Pinned
)

// purposes has all purposes with their policies. Comments describe the use
// of the hashes. The names are part of stored data and must never change.
var purposes = map[string]RotationPolicy{
	// These hashes are stored in the table, and looked up when a client sends the text.
	"consumer-key": Chained,
	"tunnel-token": Chained,
	// The hash is the seed of the key that signs the audit log. Everyone who verifies an audit log has the public key.
	"audit-chain": Pinned,
	// These hashes are in TXT records that owners of hostnames have set.
	"custom-domain": Pinned,
	// These hashes are names of artifacts. An existing name stays valid, because nothing compares it with a new hash.
	"artifact": Fresh,
	// These hashes are in texts that clients and processes hold for minutes: list cursors, the tokens of package relay
	// (passes) and upload URLs.
	"list-cursor": Fresh,
	"relay-pass":  Fresh,
	"upload":      Fresh,
	// This hash is stored with a response that is kept for a day.
	"idempotent-request": Fresh,
	// This hash is a part of a token's text. It is not compared with other hashes.
	"tunnel-account": Fresh,
	// This hash identifies a root key.
	checkPurpose: Fresh,
}

const (
	hashPrefix   = "hash/"
	checkPurpose = "root-key"
)
