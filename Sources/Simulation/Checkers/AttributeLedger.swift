package import Bytes
package import Vocabulary

/// Checks that all sources show each version of the attribute writers' documents with the same bytes,
/// and with the right numbers in place of the macros.
///
/// - A version is named by its key and CAS: a durable write has the same CAS when it is prepared and
///   when it is committed.
/// - If clocks go back, two histories may assign one CAS to different versions of a key. The ledger then
///   names a version by its history too, and does not compare what has no known history.
/// - An attribute is as the write that its CAS names has made it, in all later versions too.
/// - No tombstone has an attribute of the user: the writers give none to tombstones.
package struct AttributeLedger {
    /// The keys of documents that the ledger checks begin with this.
    package static let prefix = "attributed"

    /// The version that an acknowledged write created.
    package struct Expectation: Hashable, Sendable {
        package var isDeleted: Bool
        /// The names of the writes that made its attributes, by key.
        package var names: [String: String]
        /// The name of the write itself; nil if it wrote no attribute.
        package var own: String?

        package init(isDeleted: Bool, names: [String: String], own: String?) {
            self.isDeleted = isDeleted
            self.names = names
            self.own = own
        }
    }

    /// A source of versions: memory, a disk, a stream between nodes, or the client of a feed.
    package struct Source: Hashable, Sendable {
        let text: String
        /// The failover log of the copy that the versions are from; nil if it is not known.
        let log: FailoverLog?
        /// Whether the versions are prepares.
        let isPrepare: Bool

        package init(_ text: String, log: FailoverLog?, isPrepare: Bool = false) {
            self.text = text
            self.log = log
            self.isPrepare = isPrepare
        }

        /// The history that made the change at a seqno; nil if the log does not cover it.
        func history(of seqno: Seqno) -> VBucketUUID? {
            log?.entries.first { $0.seqno < seqno }?.uuid
        }
    }

    private struct Name: Hashable {
        let bucket: String
        let key: [UInt8]
        let cas: CAS
        /// Nil if the CAS alone names the version.
        let history: VBucketUUID?
    }

    private struct Record {
        let version: CopyContent.Version
        let source: String
        var prepare: Seqno?
    }

    private struct Text: Hashable {
        let document: Name
        let attribute: String
    }

    private let namesHistories: Bool
    /// The versions with their values, as the first source showed them.
    private var records: [Name: Record] = [:]
    /// Incomplete versions without a record, compared once a complete one is recorded.
    private var waiting: [Name: [(version: CopyContent.Version, source: String)]] = [:]
    /// The attributes by the version that their CAS names.
    private var texts: [Text: String] = [:]
    private var expectations: [Name: Expectation] = [:]
    /// How often a source was compared with the first one.
    package private(set) var compared = 0
    /// How often a macro was checked in the version that its write made.
    package private(set) var expanded = 0
    /// Acknowledged writes that were compared with what they have made.
    package private(set) var confirmed = 0
    /// Changes that feeds sent.
    package var sent = 0

    /// - Parameter namesHistories: Whether a CAS may name versions of several histories.
    package init(namesHistories: Bool = false) {
        self.namesHistories = namesHistories
    }

    package static func names(_ key: ByteView) -> Bool {
        key.count >= prefix.utf8.count && key.slice(0, prefix.utf8.count).text == prefix
    }

    // MARK: Sources

    /// Records what a source shows of a version.
    ///
    /// - Returns: A sentence on the first flaw; nil if there is none.
    package mutating func sees(
        _ version: CopyContent.Version,
        of key: [UInt8],
        in bucket: String,
        by source: Source
    ) -> String? {
        let history = namesHistories ? source.history(of: version.seqno) : nil
        guard history != nil || !namesHistories else { return nil }
        let name = Name(bucket: bucket, key: key, cas: version.cas, history: history)
        let flaw = flaw(inMacros: version, name, source) ?? flaw(inForm: version, name, source)
        return flaw.map { "\(Self.text(name)) by \(source.text): \($0)" }
    }

    /// Records what an acknowledged write has made; returns a sentence on a flaw.
    ///
    /// The history is that of the write and of the version that it replaced; nil if they differ or are
    /// not known.
    package mutating func expect(
        _ expectation: Expectation,
        of key: [UInt8],
        in bucket: String,
        cas: CAS,
        history: VBucketUUID?
    ) -> String? {
        guard history != nil || !namesHistories else { return nil }
        let name = Name(
            bucket: bucket,
            key: key,
            cas: cas,
            history: namesHistories ? history : nil
        )
        guard let record = records[name] else {
            expectations[name] = expectation
            return nil
        }
        confirmed += 1
        return flaw(in: record.version, expectation).map {
            "\(Self.text(name)) by \(record.source): \($0)"
        }
    }

    private static func text(_ name: Name) -> String {
        "\(String(decoding: name.key, as: UTF8.self)) of \(name.bucket) at CAS \(name.cas.value)"
    }

    // MARK: Forms

    private mutating func flaw(
        inForm version: CopyContent.Version,
        _ name: Name,
        _ source: Source
    ) -> String? {
        if version.form == .bodies, version.hasAttributes {
            return "attributes were sent without an agreement"
        }
        if let record = records[name] {
            compared += 1
            if source.isPrepare { records[name]?.prepare = version.seqno }
            return flaw(version, record, isPrepare: source.isPrepare)
        }
        guard version.form == .whole, version.value != nil || version.isDeleted else {
            waiting[name, default: []].append((version, source.text))
            return nil
        }
        // The value of a tombstone may be on disk.
        if version.hasAttributes, version.value == nil { return nil }
        let record = Record(
            version: version,
            source: source.text,
            prepare: source.isPrepare ? version.seqno : nil
        )
        records[name] = record
        for (other, place) in waiting.removeValue(forKey: name) ?? [] {
            compared += 1
            if let flaw = flaw(other, record, isPrepare: false) { return "\(place): \(flaw)" }
        }
        guard let expectation = expectations.removeValue(forKey: name) else { return nil }
        confirmed += 1
        return flaw(in: version, expectation)
    }

    /// Compares what a source shows with the record; seqnos of commits differ between histories.
    private func flaw(
        _ version: CopyContent.Version,
        _ record: Record,
        isPrepare: Bool
    ) -> String? {
        if isPrepare, let known = record.prepare, known != version.seqno {
            return "it was prepared at \(known.value) and at \(version.seqno.value)"
        }
        guard version.isDeleted == record.version.isDeleted else {
            return "it is \(version), and was \(record.version) by \(record.source)"
        }
        guard let shown = record.version.shown(as: version.form) else { return nil }
        let isSame = version.hasAttributes == shown.hasAttributes
        guard isSame, version.value == nil || version.value == shown.value else {
            return "it is \(version), and was \(record.version) by \(record.source)"
        }
        return nil
    }

    // MARK: Macros

    private mutating func flaw(
        inMacros version: CopyContent.Version,
        _ name: Name,
        _ source: Source
    ) -> String? {
        guard version.hasAttributes, version.value != nil else { return nil }
        guard let attributes = version.attributes else { return "its attributes are malformed" }
        for (key, text) in attributes {
            guard let mark = AttributeMark(text) else { return "\(key) is \(text)" }
            if version.isDeleted, !key.hasPrefix("_") { return "the tombstone has \(key)" }
            if let known = note(text, mark, attribute: key, name: name, source: source),
                known != text
            {
                return "\(key) is \(text), and was \(known)"
            }
            if mark.cas > name.cas.value { return "\(key) names a later version: \(text)" }
            guard mark.cas == name.cas.value else { continue }
            expanded += 1
            let prepare = source.isPrepare ? version.seqno : records[name]?.prepare
            if let flaw = Self.flaw(mark, version, prepare: prepare) { return "\(key): \(flaw)" }
        }
        return nil
    }

    /// Records the text of an attribute; returns the text that another version had.
    private mutating func note(
        _ text: String,
        _ mark: AttributeMark,
        attribute: String,
        name: Name,
        source: Source
    ) -> String? {
        let history = namesHistories ? source.history(of: Seqno(mark.seqno)) : nil
        guard history != nil || !namesHistories else { return nil }
        let document = Name(
            bucket: name.bucket,
            key: name.key,
            cas: CAS(mark.cas),
            history: history
        )
        return texts.updateValue(text, forKey: Text(document: document, attribute: attribute))
    }

    /// The flaw of a mark in the version that its write made.
    private static func flaw(
        _ mark: AttributeMark,
        _ version: CopyContent.Version,
        prepare: Seqno?
    ) -> String? {
        let seqno = version.seqno.value
        if mark.isDurable {
            // The commit has a later seqno than the prepare, which the macro names.
            if let prepare, mark.seqno != prepare.value {
                return "its seqno is \(mark.seqno), and the prepare's \(prepare.value)"
            }
            if prepare == nil, mark.seqno >= seqno {
                return "its seqno is \(mark.seqno), and the commit's \(seqno)"
            }
        } else if mark.seqno != seqno {
            return "its seqno is \(mark.seqno), and the version's \(seqno)"
        }
        let checksum = (version.body ?? []).withUnsafeBytes { CRC32C.checksum(ByteView($0)) }
        guard mark.checksum != checksum else { return nil }
        return "its checksum is \(mark.checksum), and the body's \(checksum)"
    }

    // MARK: Acknowledged writes

    private func flaw(
        in version: CopyContent.Version,
        _ expectation: Expectation
    ) -> String? {
        guard version.isDeleted == expectation.isDeleted else {
            return "it is \(version), and was \(expectation.isDeleted ? "" : "not ")deleted"
        }
        var found: [String: String] = [:]
        for (key, text) in version.attributes ?? [] {
            guard let mark = AttributeMark(text) else { continue }
            found[key] = mark.name
            if mark.name == expectation.own, mark.cas != version.cas.value {
                return "the CAS of \(key) is \(mark.cas)"
            }
        }
        guard found != expectation.names else { return nil }
        return "its attributes are of \(Self.text(found)), and should be of "
            + Self.text(expectation.names)
    }

    private static func text(_ names: [String: String]) -> String {
        let all = names.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return all.isEmpty ? "no write" : all.joined(separator: ", ")
    }
}
