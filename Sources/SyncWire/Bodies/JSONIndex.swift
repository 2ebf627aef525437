internal import Bytes
internal import JSON

/// The objects and members of a JSON text, found in one pass without recursion.
///
/// Canonical JSON has sorted names, and a document splits at its names; both need to know where members
/// are before they write the first one. A tree would cost ten times the text. The index has 16 bytes for
/// each object, and 16 for each member of the root and of objects whose names are not in order.
///
/// - Nesting is bounded, and the call stack is not used for it.
/// - Text may be ill-formed UTF-8, as Go's decoder allows: readers repair it.
/// - Offsets have 32 bits: the caller bounds the text before.
struct JSONIndex {
    enum Failure: Error {
        case notJSON
        case tooDeep
    }

    /// Bytes of the text, or of `decodedNames` behind it.
    struct Name {
        let start: UInt32
        let count: UInt32
    }

    struct Member {
        let name: Name
        let valueStart: UInt32
        /// The number of the first object that begins in the value.
        let firstObject: UInt32
    }

    /// Objects are numbered in the order of their opening brackets.
    struct Object {
        /// Whether the names of the text are in order and differ, so that the object has no members here.
        fileprivate(set) var isSorted = true
        fileprivate(set) var firstMember: UInt32 = 0
        fileprivate(set) var memberCount: UInt32 = 0
        /// The offset behind the closing bracket.
        fileprivate(set) var end: UInt32 = 0
        /// The number of the first object behind this one.
        fileprivate(set) var nextObject: UInt32 = 0
    }

    let text: ByteView
    private(set) var objects: [Object] = []
    private var members: [Member] = []
    /// The names that have escapes or ill-formed bytes, one after the other.
    private let decodedNames = ByteWriter()

    /// Indexes `text`, one JSON value, nested at most `depthMax` deep.
    ///
    /// - Throws: `.notJSON` for any other text and for numbers beyond a double that have to be doubles, `.tooDeep`.
    init(_ text: ByteView, depthMax: Int, numbers: CanonicalJSON.Numbers) throws(Failure) {
        guard text.count <= SyncLimits.bulkBytesMax else { throw .notJSON }
        self.text = text
        var pass = Pass(text: text, depthMax: depthMax, numbers: numbers)
        try pass.run(&self)
    }

    /// The members of an object that is the root, or not sorted: in the order of their names, each name once.
    func members(of object: Object) -> ArraySlice<Member> {
        let first = Int(object.firstMember)
        return members[first..<first + Int(object.memberCount)]
    }

    /// The members of the root; nil if the root is not an object.
    var rootMembers: ArraySlice<Member>? {
        var scanner = JSONScanner(view: text)
        scanner.skipBlank()
        guard scanner.peek == UInt8(ascii: "{"), let root = objects.first else { return nil }
        return members(of: root)
    }

    /// The decoded bytes of a name, well-formed UTF-8.
    func view(_ name: Name) -> ByteView {
        let start = Int(name.start)
        return start >= text.count
            ? decodedNames.view.slice(start - text.count, Int(name.count))
            : text.slice(start, Int(name.count))
    }

    /// Appends a name, decoding it only if it is not plain.
    fileprivate mutating func makeName(start: Int, count: Int) -> Name {
        let content = text.slice(start, count)
        let isPlain = content.buffer.allSatisfy { $0 < 0x80 && $0 != UInt8(ascii: "\\") }
        if isPlain, count > 0 { return Name(start: UInt32(start), count: UInt32(count)) }
        let first = decodedNames.count
        JSONEscapes.append(decoded: content, to: decodedNames)
        let length = decodedNames.count - first
        return Name(start: UInt32(text.count + first), count: UInt32(length))
    }

    fileprivate mutating func open() -> Int {
        objects.append(Object())
        return objects.count - 1
    }

    /// Completes an object whose members are the last of `pending`, from `first` on, and removes these.
    fileprivate mutating func close(
        _ number: Int,
        end: Int,
        pending: inout [Member],
        from first: Int
    ) {
        objects[number].end = UInt32(end)
        objects[number].nextObject = UInt32(objects.count)
        defer { pending.removeSubrange(first...) }
        let isSorted = zip(pending[first...], pending[first...].dropFirst()).allSatisfy {
            view($0.name).precedes(view($1.name))
        }
        objects[number].isSorted = isSorted
        guard !isSorted || number == 0 else { return }
        // Two members of one name stay in the order of the text.
        pending[first...].sort { one, other in
            let (name, otherName) = (view(one.name), view(other.name))
            if name.precedes(otherName) { return true }
            return name.equals(otherName) && one.valueStart < other.valueStart
        }
        let start = members.count
        for index in first..<pending.count {
            // Of equal names, the last member of the text counts.
            if members.count > start, let last = members.last,
                view(last.name).equals(view(pending[index].name))
            {
                members.removeLast()
            }
            members.append(pending[index])
        }
        objects[number].firstMember = UInt32(start)
        objects[number].memberCount = UInt32(members.count - start)
    }
}

extension JSONIndex {
    /// The pass over the text.
    private struct Pass {
        private enum Bracket {
            case array
            case object(number: Int, firstMember: Int)
        }

        private enum Step {
            case valueFollows
            case valueEnded
        }

        private let depthMax: Int
        private let numbers: CanonicalJSON.Numbers
        private var scanner: JSONScanner
        private var brackets: [Bracket] = []
        /// The members of open objects, the innermost object's last.
        private var pending: [Member] = []

        init(text: ByteView, depthMax: Int, numbers: CanonicalJSON.Numbers) {
            self.depthMax = depthMax
            self.numbers = numbers
            scanner = JSONScanner(view: text, allowsIllFormedText: true)
        }

        /// Fills `index`.
        ///
        /// - Throws: The failures of the index.
        mutating func run(_ index: inout JSONIndex) throws(Failure) {
            var step = Step.valueFollows
            while step == .valueFollows {
                scanner.skipBlank()
                step = try beginValue(&index)
                if step == .valueEnded { step = try endValues(&index) }
            }
            guard scanner.isAtEnd else { throw .notJSON }
        }

        private mutating func beginValue(_ index: inout JSONIndex) throws(Failure) -> Step {
            let isValid: Bool
            switch scanner.peek {
            case UInt8(ascii: "{"): return try beginObject(&index)
            case UInt8(ascii: "["):
                guard brackets.count < depthMax else { throw .tooDeep }
                _ = scanner.consume("[")
                scanner.skipBlank()
                if scanner.consume("]") { return .valueEnded }
                brackets.append(.array)
                return .valueFollows
            case UInt8(ascii: "\""): isValid = scanner.consumeString()
            case UInt8(ascii: "t"): isValid = scanner.consume(literal: "true")
            case UInt8(ascii: "f"): isValid = scanner.consume(literal: "false")
            case UInt8(ascii: "n"): isValid = scanner.consume(literal: "null")
            default: isValid = consumeNumber()
            }
            guard isValid else { throw .notJSON }
            return .valueEnded
        }

        private mutating func beginObject(_ index: inout JSONIndex) throws(Failure) -> Step {
            guard brackets.count < depthMax else { throw .tooDeep }
            let number = index.open()
            _ = scanner.consume("{")
            scanner.skipBlank()
            if scanner.consume("}") {
                index.close(number, end: scanner.offset, pending: &pending, from: pending.count)
                return .valueEnded
            }
            brackets.append(.object(number: number, firstMember: pending.count))
            try beginMember(&index)
            return .valueFollows
        }

        /// Consumes a name, its colon and the blanks around.
        private mutating func beginMember(_ index: inout JSONIndex) throws(Failure) {
            scanner.skipBlank()
            let start = scanner.offset + 1
            guard scanner.consumeString() else { throw .notJSON }
            let name = index.makeName(start: start, count: scanner.offset - 1 - start)
            scanner.skipBlank()
            guard scanner.consume(":") else { throw .notJSON }
            scanner.skipBlank()
            pending.append(
                Member(
                    name: name,
                    valueStart: UInt32(scanner.offset),
                    firstObject: UInt32(index.objects.count)
                )
            )
        }

        /// Closes the brackets that end behind a value, up to the next value or the end of the text.
        private mutating func endValues(_ index: inout JSONIndex) throws(Failure) -> Step {
            while true {
                scanner.skipBlank()
                guard let innermost = brackets.last else { return .valueEnded }
                switch innermost {
                case .array:
                    if scanner.consume(",") { return .valueFollows }
                    guard scanner.consume("]") else { throw .notJSON }
                case .object(let number, let firstMember):
                    if scanner.consume(",") {
                        try beginMember(&index)
                        return .valueFollows
                    }
                    guard scanner.consume("}") else { throw .notJSON }
                    index.close(number, end: scanner.offset, pending: &pending, from: firstMember)
                }
                brackets.removeLast()
            }
        }

        private mutating func consumeNumber() -> Bool {
            let start = scanner.offset
            guard scanner.consumeNumber() else { return false }
            if numbers == .literals { return true }
            let number = scanner.view.slice(start, scanner.offset - start)
            // Fewer digits without an exponent are below the largest double, 1.8e308.
            let isSmall =
                number.count < 308 && !number.buffer.contains { $0 | 0x20 == UInt8(ascii: "e") }
            return isSmall || JSONNumber.value(of: number).isFinite
        }
    }
}
