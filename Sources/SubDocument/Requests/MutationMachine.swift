package import Bytes
internal import JSON
package import Vocabulary
package import Wire

/// Applies the paths of a mutation, in their order, to one version of a document.
///
/// All or nothing: if a path fails, nothing is stored, and the answer has its index and status.
package struct MutationMachine {
    /// How a mutation ended.
    package enum Outcome {
        /// The request as a whole is refused for this version.
        case refused(Status)
        /// The path with this index failed.
        case failed(index: Int, Status)
        /// The stored form was written.
        case changed(Change)
    }

    /// The metadata of the written bytes: deletion, datatype and macro patches.
    package struct Change: Sendable {
        /// A tombstone; its value has attributes only.
        package var isDeleted = false
        package var datatype: Datatype = []
        package var patches: [MacroPatch] = []
    }

    /// The input of a mutation besides the version that it changes.
    package struct Input {
        /// A request that `RequestCheck` accepts.
        package let request: SubDocumentRequest
        /// The vBucket UUID and the clock for macros of a document that does not exist.
        package let context: MacroContext
        /// The paths whose value is a whole body that is JSON, the first one in the lowest bit:
        /// checked by the caller, as it takes long for a large value.
        package let jsonBodies: UInt16
        /// Whether the client may write system attributes; if not, their paths fail.
        package let writesSystemAttributes: Bool

        package init(
            _ request: SubDocumentRequest,
            context: MacroContext,
            jsonBodies: UInt16,
            writesSystemAttributes: Bool
        ) {
            self.request = request
            self.context = context
            self.jsonBodies = jsonBodies
            self.writesSystemAttributes = writesSystemAttributes
        }
    }

    private let input: Input
    private let version: DocumentView
    private let results: ByteWriter
    private var attributes: AttributeEdits
    private var body: EditedText
    private var isJSON: Bool
    private var placeholders: MacroPlaceholders
    private var change = Change()
    /// Whether the body of a new document is still missing.
    private var needsRoot: Bool
    /// A path gave a body to a version that was a tombstone before.
    private var writesBodyOfTombstone = false

    /// Executes a mutation.
    ///
    /// - Parameters:
    ///   - input: The request.
    ///   - version: The version before; nil if there is none. A tombstone only if the request accesses
    ///     deleted documents.
    ///   - output: Gets the new stored form; must be empty, as the offsets of macros begin there.
    ///   - results: Gets the answer's value.
    /// - Returns: The outcome. Unless it is `changed`, the content of `output` is meaningless.
    package static func run(
        _ input: Input,
        on version: DocumentView?,
        to output: ByteWriter,
        results: ByteWriter
    ) -> Outcome {
        precondition(output.count == 0, "offsets of macros begin at the first byte")
        if let status = refusal(of: input.request.documentFlags, on: version) {
            return .refused(status)
        }
        var machine = MutationMachine(input, version, to: results)
        for (index, spec) in input.request.specs.enumerated() {
            let status = machine.apply(spec, index: index)
            guard status == .success else { return .failed(index: index, status) }
        }
        if machine.writesBodyOfTombstone { return .refused(.subdocDeletedCannotHaveValue) }
        return machine.finish(output)
    }

    private init(_ input: Input, _ version: DocumentView?, to results: ByteWriter) {
        self.input = input
        self.results = results
        let flags = input.request.documentFlags
        let isTombstone = version?.meta.isDeleted ?? false
        change.isDeleted = MutationMachine.concernsTombstone(flags, version)
        needsRoot = !change.isDeleted && (version == nil || isTombstone)
        isJSON = version?.isJSON ?? false
        body = EditedText(version?.body ?? .empty)
        attributes = AttributeEdits(version?.attributes)
        // Macros show a document that does not exist as zeros.
        self.version = version ?? DocumentView(meta: DocumentMeta(revision: 0), value: .empty)
        let stored = version?.attributes?.pairs ?? .empty
        let sent = input.request.specs.flatMap { spec in
            spec.flags.contains(.attribute) ? [spec.path, spec.value] : []
        }
        placeholders = MacroPlaceholders(foreign: [stored] + sent)
    }

    /// The refusal of a request for a version; nil if its paths can be applied.
    private static func refusal(of flags: DocumentFlags, on version: DocumentView?) -> Status? {
        guard let version else {
            return flags.isDisjoint(with: [.makesDocument, .adds]) ? .keyNotFound : nil
        }
        if flags.contains(.adds) { return .keyExists }
        if flags.contains(.revives), !version.meta.isDeleted { return .subdocCanOnlyReviveDeleted }
        return nil
    }

    /// Whether a mutation changes or creates a tombstone: its answer has other statuses then.
    package static func concernsTombstone(_ flags: DocumentFlags, _ version: DocumentView?) -> Bool
    {
        let isTombstone = version?.meta.isDeleted ?? flags.contains(.createsAsDeleted)
        return isTombstone && !flags.contains(.revives)
    }

    // MARK: Paths

    private mutating func apply(_ spec: SubDocumentSpec, index: Int) -> Status {
        guard input.writesSystemAttributes || !spec.namesSystemAttribute else {
            return .accessDenied
        }
        switch spec.operation {
        case .setDocument:
            let isJSON = input.jsonBodies & 1 << UInt16(index) != 0
            return replaceBody(by: EditedText(spec.value), isJSON: isJSON)
        case .deleteDocument: return deleteDocument()
        case .replaceBodyWithAttribute: return replaceBodyWithAttribute(spec)
        default: break
        }
        guard let operation = EditOperation(spec.operation) else { return .invalid }
        if spec.flags.contains(.expandsMacros), Macro.parse(spec.value) == .unknownVirtual {
            return .subdocXattrUnknownVirtualMacro
        }
        let path: DocumentPath
        do throws(PathFailure) {
            path = try DocumentPath(spec.path, isAttribute: spec.flags.contains(.attribute))
        } catch {
            return Status(error)
        }
        let result: Result<EditResult, PathFailure>
        if spec.flags.contains(.attribute) {
            result = editAttribute(spec, operation, at: path)
        } else {
            makeRoot { PathEdit.newRoot(for: operation, at: path) }
            guard isJSON else { return .subdocDocumentNotJSON }
            result = body.apply(
                operation,
                at: path,
                value: spec.value,
                makesParents: makesParents(spec)
            )
        }
        switch result {
        case .failure(let failure): return Status(failure)
        case .success(let edit):
            if let number = edit.number { appendResult(number, index: index) }
            return .success
        }
    }

    private func appendResult(_ number: Int64, index: Int) {
        String(number).withView { view in
            if input.request.form == .single {
                results.append(view)
            } else {
                SubDocumentEncoder.appendMutation(index: index, view, to: results)
            }
        }
    }

    /// Whether missing objects on a path are created: a request that may create the document may
    /// create these too.
    private func makesParents(_ spec: SubDocumentSpec) -> Bool {
        spec.flags.contains(.makesParents)
            || !input.request.documentFlags.isDisjoint(with: [.makesDocument, .adds])
    }

    private mutating func editAttribute(
        _ spec: SubDocumentSpec,
        _ operation: EditOperation,
        at path: DocumentPath
    ) -> Result<EditResult, PathFailure> {
        let makesParents = makesParents(spec)
        var owned: [UInt8]?
        if spec.flags.contains(.binary) {
            owned = BinaryValue.encode(spec.value)
        } else if spec.flags.contains(.expandsMacros) {
            owned = text(ofMacro: spec.value)
        }
        guard let owned else {
            return attributes.apply(
                operation,
                at: path,
                value: spec.value,
                makesParents: makesParents
            )
        }
        return owned.withUnsafeBytes {
            attributes.apply(
                operation,
                at: path,
                value: ByteView($0),
                makesParents: makesParents
            )
        }
    }

    /// The text that replaces a macro for now: a value of the document, or a placeholder.
    private mutating func text(ofMacro value: ByteView) -> [UInt8] {
        guard case .macro(let macro) = Macro.parse(value) else {
            preconditionFailure("the request and the path were checked")
        }
        guard case .document(let field) = macro else { return placeholders.add(macro) }
        let document = VirtualAttribute.document.value(of: version, in: input.context)
        guard let field else { return document }
        return document.withUnsafeBytes { buffer in
            let found = field.withView { text -> [UInt8]? in
                guard let path = try? DocumentPath(text, isAttribute: false),
                    case .success(let value) = PathLookup.value(at: path, in: ByteView(buffer))
                else { return nil }
                return value.bytes
            }
            guard let found else { preconditionFailure("the document has each field") }
            return found
        }
    }

    // MARK: The body

    /// Makes the body of a new document, unless it has one.
    private mutating func makeRoot(_ root: () -> StaticString) {
        guard needsRoot else { return }
        needsRoot = false
        body = EditedText(root())
        isJSON = true
    }

    private mutating func replaceBody(by text: EditedText, isJSON: Bool) -> Status {
        if change.isDeleted { writesBodyOfTombstone = true }
        needsRoot = false
        body = text
        self.isJSON = isJSON
        return .success
    }

    private mutating func deleteDocument() -> Status {
        attributes.dropUserAttributes()
        change.isDeleted = true
        writesBodyOfTombstone = false
        needsRoot = false
        return .success
    }

    private mutating func replaceBodyWithAttribute(_ spec: SubDocumentSpec) -> Status {
        let path: DocumentPath
        do throws(PathFailure) {
            path = try DocumentPath(spec.path, isAttribute: true)
        } catch {
            return Status(error)
        }
        guard let attribute = attributes.value(of: path.attributeKey) else {
            return .subdocPathNotFound
        }
        switch PathLookup.value(at: path.withoutFirst, in: attribute) {
        case .failure(let failure): return Status(failure)
        case .success(let value):
            guard spec.flags.contains(.binary) else {
                // A copy: later paths may change the attribute. Versions of other clusters
                // (SET_WITH_META) have attributes of any bytes.
                let body = EditedText(copying: [value])
                return replaceBody(by: body, isJSON: JSONGrammar.accepts(body.view))
            }
            guard let bytes = BinaryValue.decode(value) else { return .subdocFieldNotBinaryValue }
            let body = EditedText(bytes)
            return replaceBody(by: body, isJSON: JSONGrammar.accepts(body.view))
        }
    }

    // MARK: The end

    /// Writes the stored form.
    private mutating func finish(_ output: ByteWriter) -> Outcome {
        makeRoot { "{}" }
        let newBody: ByteView = change.isDeleted ? .empty : body.view
        if attributes.append(to: output) {
            change.datatype.insert(.xattr)
            if !placeholders.isEmpty {
                change.patches = placeholders.expand(in: output, end: output.count, body: newBody)
            }
        }
        output.append(newBody)
        if !change.isDeleted, isJSON { change.datatype.insert(.json) }
        guard XattrBlob.isWithinLimits(output.view, change.datatype) else {
            return .refused(.tooBig)
        }
        return .changed(change)
    }
}

extension EditOperation {
    /// The edit of a mutation's path; nil for lookups and whole documents.
    init?(_ operation: SubDocumentOperation) {
        switch operation {
        case .dictionaryAdd: self = .dictAdd
        case .dictionaryUpsert: self = .dictUpsert
        case .delete: self = .delete
        case .replace: self = .replace
        case .arrayPushLast: self = .pushLast
        case .arrayPushFirst: self = .pushFirst
        case .arrayInsert: self = .insert
        case .arrayAddUnique: self = .addUnique
        case .counter: self = .counter
        default: return nil
        }
    }
}

/// The attributes of a document while the paths of a request change them.
///
/// A changed attribute is a document of its own, `{"key":value}`, to which its paths apply unchanged:
/// so an attribute is created, replaced and deleted like a member.
struct AttributeEdits {
    private struct Entry {
        let key: ByteView
        /// The value as it is stored; unused once there is a document.
        let stored: ByteView
        var document: EditedText?

        /// Nil if the attribute was deleted.
        var value: ByteView? {
            guard let text = document?.view else { return stored }
            // Between `{"key":` and `}`.
            let start = key.count + 4
            return text.count > start + 1 ? text.slice(start, text.count - start - 1) : nil
        }
    }

    private var entries: [Entry] = []

    /// - Parameter attributes: Those of the version before; valid as long as the edits are.
    init(_ attributes: XattrBlob?) {
        guard let attributes else { return }
        for (key, value) in attributes {
            entries.append(Entry(key: key, stored: value))
        }
    }

    /// The current value of an attribute; nil if there is none.
    func value(of key: ByteView) -> ByteView? {
        entries.first { $0.key.equals(key) }?.value
    }

    /// Applies an edit at an attribute's whole path.
    mutating func apply(
        _ operation: EditOperation,
        at path: DocumentPath,
        value: ByteView,
        makesParents: Bool
    ) -> Result<EditResult, PathFailure> {
        let key = path.attributeKey
        let place = entries.firstIndex { $0.key.equals(key) }
        var entry = place.map { entries[$0] } ?? Entry(key: key, stored: .empty)
        var document =
            entry.document ?? (place == nil ? EditedText("{}") : AttributeEdits.wrap(entry))
        let result = document.apply(
            operation,
            at: path,
            value: value,
            makesParents: makesParents
        )
        guard case .success = result else { return result }
        entry.document = document
        if let place { entries[place] = entry } else { entries.append(entry) }
        return result
    }

    private static func wrap(_ entry: Entry) -> EditedText {
        func text(_ string: StaticString) -> ByteView {
            ByteView(start: string.utf8Start, count: string.utf8CodeUnitCount)
        }
        return EditedText(copying: [text("{\""), entry.key, text("\":"), entry.stored, text("}")])
    }

    /// Drops all but the system attributes, as the deletion of a document does.
    mutating func dropUserAttributes() {
        entries.removeAll { !XattrBlob.isSystemKey($0.key) }
    }

    /// Appends the attributes in the stored form.
    ///
    /// - Returns: Whether there are any; otherwise nothing was appended.
    func append(to writer: ByteWriter) -> Bool {
        let attributes = XattrWriter.begin(writer)
        for entry in entries {
            if let value = entry.value { attributes.append(key: entry.key, value: value) }
        }
        return attributes.end()
    }
}
