// Computes the costs that docs/graphql.md describes, independent of package graphql: it visits a fragment
// at each spread, and caches nothing. oracle.mjs imports this file.
export function measurer({ Kind, parse }) {
  return ({ document, ignored }) => {
    const { definitions } = parse(document);
    const invalid = (why) => ({ invalid: why });
    if (!definitions.every((d) => d.kind === Kind.OPERATION_DEFINITION || d.kind === Kind.FRAGMENT_DEFINITION)) return invalid('not executable');
    const operations = definitions.filter((d) => d.kind === Kind.OPERATION_DEFINITION);
    const fragments = new Map();
    for (const d of definitions.filter((d) => d.kind === Kind.FRAGMENT_DEFINITION)) {
      if (fragments.has(d.name.value)) return invalid('two fragments of one name');
      fragments.set(d.name.value, d);
    }
    if (operations.length === 0) return invalid('no operation');
    let introspects = false;
    let steps = 0;
    // walk calls found for each field that is asked for, with how many fields with selections are around it.
    const walk = (set, level, way, found) => {
      if (steps++ > 200000) throw new Error('too large for the oracle');
      if (set.selections.length === 0) throw new Error('an empty selection, which GraphQL.js alone takes');
      for (const s of set.selections) {
        if (s.kind === Kind.FIELD) {
          const name = s.name.value;
          const meta = name === '__schema' || name === '__type';
          introspects ||= meta;
          const deeper = level === undefined || meta || ignored.includes(name) ? undefined : level + (s.selectionSet ? 1 : 0);
          found(name, deeper);
          if (s.selectionSet) walk(s.selectionSet, deeper, way, found);
        } else if (s.kind === Kind.INLINE_FRAGMENT) {
          walk(s.selectionSet, level, way, found);
        } else {
          const name = s.name.value;
          if (!fragments.has(name)) throw Object.assign(new Error(), { invalid: 'unknown fragment' });
          if (way.includes(name)) throw Object.assign(new Error(), { invalid: 'cycle' });
          walk(fragments.get(name).selectionSet, level, [...way, name], found);
        }
      }
    };
    try {
      const costs = operations.map((o) => {
        let depth = 0;
        let complexity = 0;
        walk(o.selectionSet, 0, [], (name, level) => {
          depth = Math.max(depth, level ?? 0);
          complexity += name === '__typename' ? 0 : 1;
        });
        return { name: o.name?.value ?? '', type: o.operation, depth, complexity };
      });
      for (const f of fragments.values()) walk(f.selectionSet, 0, [f.name.value], () => {});
      return { operations: costs, introspects };
    } catch (error) {
      if (error.invalid) return invalid(error.invalid);
      throw error;
    }
  };
}
