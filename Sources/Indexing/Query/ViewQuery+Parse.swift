package import Bytes
internal import JSON

extension ViewQuery {
    /// Bytes of all `keys` as sort keys: a request between nodes has each of them twice.
    private static let keysBytesMax = 8 << 20
    /// The number of `keys`: each needs some 128 bytes of memory besides its own, for its array and two more
    /// of its range of rows, so all need 32 MiB.
    private static let keysMax = 256 << 10

    /// Reads a query from the parameters of a URL, in their order, and the body of a POST.
    ///
    /// A parameter that is not known is ignored. Of two with one meaning the last one counts.
    ///
    /// - Parameters:
    ///   - parameters: percent-decoded.
    ///   - body: the JSON body of a POST, of which only the member `keys` is used; nil for a GET.
    ///   - hasReduce: whether the view has a reduce function.
    ///   - encode: the sort key of a bound's JSON text without blanks around it, which
    ///     `Collation.appendBound` makes; nil if the text is too long.
    /// - Throws: `QueryRefusal` if a value is invalid, or parameters contradict each other or the
    ///   view.
    package init(
        parameters: [QueryParameter],
        body: ByteView?,
        hasReduce: Bool,
        encode: (ByteView) -> [UInt8]?
    ) throws(QueryRefusal) {
        self.init()
        selection.keys = try ViewQuery.keys(parameters, body, encode: encode)
        var settings: [QuerySetting] = []
        for parameter in parameters {
            let parsed = parameter.value.withUnsafeBytes { bytes in
                Result { () throws(QueryRefusal) in
                    try QuerySetting.parse(parameter.name, ByteView(bytes), encode: encode)
                }
            }
            settings += try parsed.get()
        }
        let kind = ViewQuery.viewKind(hasReduce: hasReduce, settings)
        if kind == .reduce { reduction = .all }
        for setting in settings { try apply(setting, kind) }
        setTimeoutDefault(settings)
        try requireRowsInRange()
        try requireGroups(kind, settings)
    }

    /// Whether a query with these parameters includes documents: the last `include_docs` counts.
    ///
    /// False also if its value is invalid: such a query is refused.
    package static func includesDocuments(_ parameters: [QueryParameter]) -> Bool {
        guard let last = parameters.last(where: { $0.name == "include_docs" }) else { return false }
        return last.value.withUnsafeBytes { (try? QuerySetting.boolean(ByteView($0))) ?? false }
    }

    /// The part of a view that a query reads: rows or reductions.
    private enum ViewKind {
        /// The rows of a view without a reduce function.
        case map
        /// The rows of a view with a reduce function.
        case mapOfReduce
        case reduce
    }

    private static func viewKind(hasReduce: Bool, _ settings: [QuerySetting]) -> ViewKind {
        guard hasReduce else { return .map }
        for case .reduce(let isWanted) in settings.reversed() {
            return isWanted ? .reduce : .mapOfReduce
        }
        return .reduce
    }

    // MARK: Keys

    /// The keys of the body, or else those of the parameter; nil if neither has any.
    private static func keys(
        _ parameters: [QueryParameter],
        _ body: ByteView?,
        encode: (ByteView) -> [UInt8]?
    ) throws(QueryRefusal) -> [[UInt8]]? {
        if let body, !JSONParts.trimmed(body).isEmpty {
            guard JSONGrammar.accepts(body) else { throw .invalidJSON(body) }
            guard JSONParts.isObject(body) else {
                throw .request("Request body must be a JSON object")
            }
            if let array = JSONParts.member("keys", of: body) {
                guard let texts = JSONParts.elements(of: array) else {
                    throw .request("`keys` member must be a array.")
                }
                return try sortKeys(texts, encode)
            }
        }
        guard let parameter = parameters.last(where: { $0.name == "keys" }) else { return nil }
        let keys = parameter.value.withUnsafeBytes { bytes in
            Result { () throws(QueryRefusal) in
                let text = ByteView(bytes)
                guard JSONGrammar.accepts(text) else { throw .invalidJSON(text) }
                guard let texts = JSONParts.elements(of: text) else {
                    throw .request("`keys` parameter is not an array.")
                }
                return try sortKeys(texts, encode)
            }
        }
        return try keys.get()
    }

    private static func sortKeys(
        _ texts: [ByteView],
        _ encode: (ByteView) -> [UInt8]?
    ) throws(QueryRefusal) -> [[UInt8]] {
        var keys: [[UInt8]] = []
        var bytes = 0
        for text in texts {
            if isLongerThanRowKeys(text) { continue }
            let key = try QuerySetting.sortKey("keys", text, encode: encode)
            // No row has such a key.
            if key.count > Collation.keyBytesMax { continue }
            bytes += key.count
            guard bytes <= keysBytesMax, keys.count < keysMax else {
                throw .request("There are too many `keys`. Query them in several requests.")
            }
            keys.append(key)
        }
        return keys
    }

    /// Whether no row can have a key, because of its length.
    ///
    /// Only a string without escapes is as long in a row. Blanks, escapes and digits of other texts can make
    /// them longer than the row's.
    private static func isLongerThanRowKeys(_ text: ByteView) -> Bool {
        text.count > Collation.textBytesMax && text[0] == UInt8(ascii: "\"")
            && !text.buffer.contains(UInt8(ascii: "\\"))
    }

    // MARK: Settings

    private mutating func apply(
        _ setting: QuerySetting,
        _ kind: ViewKind
    ) throws(QueryRefusal) {
        switch setting {
        case .startKey(let key):
            try requireNoKeys("start_key")
            selection.startKey = key
        case .endKey(let key):
            try requireNoKeys("end_key")
            selection.endKey = key
        case .property(let set): set(&self)
        case .timeoutMilliseconds(let number): timeoutMilliseconds = number
        case .includesDocuments(let isWanted):
            guard !isWanted || kind != .reduce else {
                throw .parameter("Query parameter `include_docs` is invalid for reduce views.")
            }
            includesDocuments = isWanted
        case .reduce(let isWanted):
            guard !isWanted || kind != .map else {
                throw .parameter("Invalid URL parameter `reduce` for map view.")
            }
        case .group(let isWanted): try apply(groups: isWanted ? .groups(level: nil) : .all, kind)
        case .groupLevel(let level):
            try apply(groups: level > 0 ? .groups(level: level) : .all, kind)
        }
    }

    private mutating func apply(groups: Reduction, _ kind: ViewKind) throws(QueryRefusal) {
        guard kind == .reduce else {
            // Two blanks, as in Couchbase's message.
            throw .parameter("Invalid URL parameter 'group' or  'group_level' for non-reduce view.")
        }
        reduction = groups
    }

    /// A current query that states no timeout outlasts its client's own.
    private mutating func setTimeoutDefault(_ settings: [QuerySetting]) {
        let isStated = settings.contains {
            if case .timeoutMilliseconds = $0 { true } else { false }
        }
        guard freshness == .current, !isStated else { return }
        timeoutMilliseconds = ViewQuery.currentTimeoutMillisecondsDefault
    }

    private func requireNoKeys(_ name: String) throws(QueryRefusal) {
        guard selection.keys == nil else {
            throw .parameter("Query parameter `\(name)` is not compatible with multi-get")
        }
    }

    /// - Throws: `QueryRefusal` if the start is behind the end.
    private func requireRowsInRange() throws(QueryRefusal) {
        guard let start = selection.startKey, let end = selection.endKey else { return }
        let isReversed =
            isDescending
            ? start.lexicographicallyPrecedes(end) : end.lexicographicallyPrecedes(start)
        guard isReversed else { return }
        throw .parameter(
            "No rows can match your key range, reverse your start_key and end_key or set"
                + " descending=\(!isDescending)"
        )
    }

    /// - Throws: `QueryRefusal` if groups are stated twice, or `keys` have no groups.
    private func requireGroups(
        _ kind: ViewKind,
        _ settings: [QuerySetting]
    ) throws(QueryRefusal) {
        guard kind == .reduce else { return }
        let hasGroup = settings.contains { if case .group = $0 { true } else { false } }
        let hasLevel = settings.contains { if case .groupLevel = $0 { true } else { false } }
        guard !hasGroup || !hasLevel else {
            throw .parameter("Query parameter `group_level` is not compatible with `group`")
        }
        guard selection.keys == nil || reduction == .groups(level: nil) else {
            throw .parameter("Multi-key fetchs for reduce view must include `group=true`")
        }
    }
}
