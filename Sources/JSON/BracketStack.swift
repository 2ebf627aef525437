/// The kinds of the open brackets of a text, one bit each, of any depth.
///
/// The innermost 64 are in a word, so that usual nesting allocates nothing and deep nesting cannot
/// overflow the call stack.
struct BracketStack {
    private(set) var depth = 0
    /// The lowest bit is the innermost bracket, set for an object.
    private var innermost: UInt64 = 0
    /// Full words, the outermost first.
    private var outer: [UInt64] = []

    var isEmpty: Bool { depth == 0 }

    /// Whether the innermost bracket is an object's; false if no bracket is open.
    var isObject: Bool { innermost & 1 == 1 }

    mutating func push(isObject: Bool) {
        if depth > 0, depth % 64 == 0 {
            outer.append(innermost)
            innermost = 0
        }
        innermost = innermost << 1 | (isObject ? 1 : 0)
        depth += 1
    }

    mutating func pop() {
        precondition(depth > 0, "a bracket is closed only if one is open")
        innermost >>= 1
        depth -= 1
        if depth > 0, depth % 64 == 0 { innermost = outer.popLast() ?? 0 }
    }
}
