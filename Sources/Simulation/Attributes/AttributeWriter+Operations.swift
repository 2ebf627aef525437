internal import DivanClient
internal import Vocabulary
internal import Wire

/// The operations of a writer of attributes.
extension AttributeWriter {
    private static let system = "_sync"
    private static let user = "note"

    func act(_ client: Client, _ key: [UInt8]) {
        switch work.states[key] ?? .unknown {
        case .unknown: lookUp(client, key, before: nil)
        case .missing: create(client, key)
        case .known(let known):
            if known.isDeleted {
                actOnTombstone(client, key, known: known)
            } else {
                actOnDocument(client, key, known: known)
            }
        }
    }

    private func create(_ client: Client, _ key: [UInt8]) {
        switch pick(5) {
        case 0: add(client, key)
        case 1:
            let flags: DocumentFlags = [.adds, .accessesDeleted, .createsAsDeleted]
            mutate(client, key, known: nil, flags: flags, attributes: [Self.system], hasBody: false)
        default:
            mutate(
                client,
                key,
                known: nil,
                flags: .adds,
                attributes: [Self.system, Self.user],
                hasBody: true
            )
        }
    }

    private func actOnDocument(_ client: Client, _ key: [UInt8], known: Known) {
        let both = [Self.system, Self.user]
        switch pick(16) {
        case 0...3: mutate(client, key, known: known, flags: [], attributes: both, hasBody: true)
        case 4:
            mutate(client, key, known: known, flags: [], attributes: [Self.system], hasBody: false)
        case 5:
            mutate(client, key, known: known, flags: [], attributes: [Self.user], hasBody: false)
        case 6, 7:
            mutate(
                client,
                key,
                known: known,
                flags: [],
                attributes: both,
                hasBody: true,
                expires: true
            )
        case 8, 9: set(client, key, known: known)
        case 10: append(client, key, known: known)
        case 11, 12: touch(client, key, known: known)
        case 13, 14: delete(client, key, known: known)
        default: lookUp(client, key, before: known)
        }
    }

    private func actOnTombstone(_ client: Client, _ key: [UInt8], known: Known) {
        let both = [Self.system, Self.user]
        switch pick(6) {
        case 0, 1: lookUp(client, key, before: known)
        case 2:
            mutate(
                client,
                key,
                known: known,
                flags: .accessesDeleted,
                attributes: [Self.system],
                hasBody: false
            )
        case 3, 4:
            let flags: DocumentFlags = [.accessesDeleted, .revives]
            mutate(client, key, known: known, flags: flags, attributes: both, hasBody: true)
        default: add(client, key)
        }
    }

    // MARK: Writes

    /// Writes attributes with macros, and the body too; replaces the version of `known`.
    private func mutate(
        _ client: Client,
        _ key: [UInt8],
        known: Known?,
        flags: DocumentFlags,
        attributes: [String],
        hasBody: Bool,
        expires: Bool = false
    ) {
        var options = options()
        let name = newName(isDurable: options.durability != nil)
        if let known { options.cas = known.cas }
        if expires { options.expiry = .afterSeconds(UInt32(1 + pick(3))) }
        var parts = attributes.flatMap { AttributeWriter.parts($0, name) }
        if hasBody {
            // A whole body cannot be set where deleted documents are accessed.
            parts.append(
                flags.contains(.accessesDeleted)
                    ? DocumentPart(.dictionaryUpsert, "body", value: "\"\(name)\"")
                    : DocumentPart(
                        .setDocument,
                        "",
                        value: String(decoding: body(name), as: UTF8.self)
                    )
            )
        }
        client.mutateIn(key, parts, flags: flags, options: options) { [self] result in
            let kind = "attributes"
            switch result {
            case .failure(let error): failed(kind, key, error: error)
            case .success(let written):
                var names = known?.names ?? [:]
                for attribute in attributes { names[attribute] = name }
                let isDeleted =
                    flags.contains(.createsAsDeleted)
                    || (known?.isDeleted == true && !flags.contains(.revives))
                let made = Known(
                    cas: written.cas,
                    isDeleted: isDeleted,
                    names: names,
                    expires: expires,
                    history: Self.history(of: written, after: known)
                )
                wrote(key, made, own: name)
                ended(kind)
            }
        }
    }

    /// An attribute with all macros.
    private static func parts(_ attribute: String, _ name: String) -> [DocumentPart] {
        func macro(_ member: String, _ macro: String) -> DocumentPart {
            DocumentPart(
                .dictionaryUpsert,
                "\(attribute).\(member)",
                value: "\"${Mutation.\(macro)}\"",
                flags: [.attribute, .expandsMacros]
            )
        }
        return [
            DocumentPart(
                .dictionaryUpsert,
                attribute,
                value: #"{"name":"\#(name)"}"#,
                flags: .attribute
            ),
            macro("cas", "CAS"), macro("seqno", "seqno"), macro("crc", "value_crc32c"),
        ]
    }

    private func body(_ name: String) -> [UInt8] { Array(#"{"body":"\#(name)"}"#.utf8) }

    /// A third of the writes is durable.
    private func options() -> WriteOptions {
        guard pick(3) == 0 else { return .plain }
        return .durable(durabilities[pick(durabilities.count)])
    }

    /// Creates a document, over a tombstone too, whose attributes are dropped.
    private func add(_ client: Client, _ key: [UInt8]) {
        let value = body(newName(isDurable: false))
        client.add(key, value, options: options()) { [self] result in
            finish("add", key, result: result, after: nil) {
                Known(cas: $0, isDeleted: false, names: [:])
            }
        }
    }

    /// Replaces the body; the attributes stay, the expiry does not.
    private func set(_ client: Client, _ key: [UInt8], known: Known) {
        var options = options()
        options.cas = known.cas
        client.set(key, body(newName(isDurable: false)), options: options) { [self] result in
            finish("set", key, result: result, after: known) {
                Known(cas: $0, isDeleted: known.isDeleted, names: known.names)
            }
        }
    }

    private func append(_ client: Client, _ key: [UInt8], known: Known) {
        var options = options()
        options.cas = known.cas
        client.append(key, Array(" ".utf8), options: options) { [self] result in
            finish("append", key, result: result, after: known) {
                Known(
                    cas: $0,
                    isDeleted: known.isDeleted,
                    names: known.names,
                    expires: known.expires
                )
            }
        }
    }

    /// Changes the expiry; a touch names no version, so its predecessor may be another one.
    private func touch(_ client: Client, _ key: [UInt8], known: Known) {
        let expires = pick(2) == 0
        let expiry = expires ? Expiry.afterSeconds(UInt32(1 + pick(3))) : .never
        client.touch(key, expiry) { [self] result in
            switch result {
            case .failure(let error): failed("touch", key, error: error)
            case .success(let cas):
                work.states[key] = .unknown
                if isCertain(key) {
                    var made = known
                    made.cas = cas
                    made.expires = expires
                    made.history = nil
                    wrote(key, made)
                }
                ended("touch")
            }
        }
    }

    /// Deletes a document: the system's attributes stay.
    private func delete(_ client: Client, _ key: [UInt8], known: Known) {
        var options = options()
        options.cas = known.cas
        let names = known.names.filter { $0.key == Self.system }
        client.delete(key, options) { [self] result in
            finish("delete", key, result: result, after: known) {
                Known(cas: $0, isDeleted: true, names: names)
            }
        }
    }

    /// The history of an acknowledged write and of the version that it replaced.
    ///
    /// Nil if they differ: the version that the write named by its CAS may be of another history, with
    /// other attributes.
    private static func history(
        of written: MutationResult,
        after known: Known?
    ) -> VBucketUUID? {
        guard let known else { return written.token?.uuid }
        return known.history == written.token?.uuid ? known.history : nil
    }

    /// Ends a write that wrote no attribute.
    private func finish(
        _ kind: String,
        _ key: [UInt8],
        result: Result<MutationResult, ClientError>,
        after known: Known?,
        made: (CAS) -> Known
    ) {
        switch result {
        case .failure(let error): failed(kind, key, error: error)
        case .success(let written):
            var made = made(written.cas)
            made.history = Self.history(of: written, after: known)
            wrote(key, made)
            ended(kind)
        }
    }

    // MARK: Reads

    /// Whether nothing but this writer's known writes can have changed a document.
    private func isCertain(_ key: [UInt8]) -> Bool {
        verifier.isLossless && !verifier.isBeyondAssumptions && !work.doubts.contains(key)
    }

    /// Reads the attributes, also of a tombstone, and compares them with what was written.
    private func lookUp(_ client: Client, _ key: [UInt8], before: Known?) {
        let parts = [Self.system, Self.user].map {
            DocumentPart(.get, $0, value: "", flags: .attribute)
        }
        client.lookupIn(key, parts, flags: .accessesDeleted) { [self] result in
            switch result {
            case .failure(let error) where error.code == .notFound:
                work.states[key] = .missing
                if let before, !before.names.isEmpty, !before.expires, isCertain(key) {
                    reportFlaw(key, "it is missing, and had attributes of \(before.names)")
                }
                ended("lookup")
            case .failure(let error): failed("lookup", key, error: error)
            case .success(let found):
                looked(found, key, before: before)
                ended("lookup")
            }
        }
    }

    private func looked(_ found: PartsOfDocument, _ key: [UInt8], before: Known?) {
        var names: [String: String] = [:]
        for (attribute, part) in zip([Self.system, Self.user], found.parts)
        where part.status == Status.success.rawValue {
            let text = String(decoding: part.value, as: UTF8.self)
            guard let mark = AttributeMark(text) else {
                return reportFlaw(key, "a client read \(attribute) as \(text)")
            }
            names[attribute] = mark.name
        }
        let now = Known(
            cas: found.cas,
            isDeleted: found.isDeleted,
            names: names,
            expires: !found.isDeleted && before?.expires ?? true
        )
        work.states[key] = .known(now)
        guard let before, isCertain(key) else { return }
        var wanted = before.names
        // It has expired.
        if found.isDeleted, before.expires { wanted[Self.user] = nil }
        if !before.expires, found.isDeleted != before.isDeleted || found.cas != before.cas {
            return reportFlaw(key, "a client read CAS \(found.cas.value), not \(before.cas.value)")
        }
        if names != wanted { reportFlaw(key, "a client read \(names), not \(wanted)") }
    }

    private func reportFlaw(_ key: [UInt8], _ sentence: String) {
        let name = String(decoding: key, as: UTF8.self)
        verifier.reportFlaw("Attributes: \(name) of \(bucket): \(sentence)")
    }
}
