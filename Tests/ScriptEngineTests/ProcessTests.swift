import Bytes
import Foundation
import Testing
import Wire

/// `divan-script` as a process: how it starts, what it gives up, how it ends.
@Suite struct ProcessTests {
    @Test func processDropsDescriptorsEnvironmentAndCapabilities() throws {
        let child = try ScriptChild()
        let own = ["/dev/null", "/dev/urandom", "anon_inode:[eventfd]", "/proc/\(child.pid)/statm"]
        for (number, target) in try child.descriptors() where number != 2 && number != 3 {
            #expect(own.contains(target), "descriptor \(number)")
        }
        #expect(child.text("environ").isEmpty)
        #expect(child.text("oom_score_adj") == "1000\n")
        let status = child.text("status")
        #expect(status.contains("NoNewPrivs:\t1\n"))
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            #expect(status.contains("\(set):\t0000000000000000\n"), "\(set) is not empty")
        }
        #expect(status.contains("Seccomp:\t\(child.isFiltered ? 2 : 0)\n"))
        let limits = child.text("limits").split(separator: "\n").map { line in
            line.split(whereSeparator: { $0 == " " }).joined(separator: " ")
        }
        #expect(limits.contains("Max core file size 0 0 bytes"))
        #expect(limits.contains("Max open files 16 16 files"))
        #expect(limits.contains { $0.hasPrefix("Max data size ") && !$0.contains("unlimited") })
    }

    /// The engine starts its compilers, its collector, time zones and regular expressions at their first use.
    @Test func languageFeaturesWorkUnderTheFilter() throws {
        let child = try ScriptChild()
        let source = """
            function (doc, meta) {
              var total = 0, made = [];
              for (var i = 0; i < 2e6; i++) { total += i % 7; if (i % 100 === 0) made.push({ i: i }); }
              emit([total, made.length], [
                new Date(doc).toLocaleString(), (1e6).toLocaleString(), 'b'.localeCompare('a'),
                '\\u0065\\u0301'.normalize('NFC').length, /\\p{Lu}/u.test('Ä'), 2n ** 70n > 0n,
                new Date(2020, 6, 1).toString(), new Function('return 7')(), eval('1 + 1')
              ]);
            }
            """
        #expect(try child.define(1, source).isDefined)
        for _ in 0..<5 {
            let answer = try child.map([1], ["0"])
            #expect(
                answer.pairs() == [
                    #"[5999995,20000]=["1/1/1970, 12:00:00 AM","1,000,000",1,1,true,true,"#
                        + #""Wed Jul 01 2020 00:00:00 GMT+0000 (Coordinated Universal Time)",7,2]"#
                ]
            )
        }
    }

    @Test func manyDefinitionsLeaveMemoryBounded() throws {
        let child = try ScriptChild()
        for index in 0..<1_000 {
            let source = "function (doc) { emit(\(index), 1); }"
            #expect(try child.define(1, source).isDefined)
        }
        #expect(try child.map([1], ["0"]).pairs() == ["999=1"])
        #expect(child.resident() < child.residentAtStart + 64, "\(child.resident()) MiB")
    }

    /// A process without memory ends: it does not answer that documents have no rows.
    @Test(arguments: [
        "var a = []; while (true) a.push(new Array(1000));",
        "var a = []; try { while (true) a.push(new Array(1000)); } catch (e) {}",
        "kept = []; try { while (true) kept.push(new Array(1000)); } catch (e) {}",
        "var o = null; while (true) o = {next: o, a: 1, b: 2};",
        "var s = []; while (true) s.push(new Array(1000).join(doc));",
        "var s = []; try { while (true) s.push(new Array(1000).join(doc)); } catch (e) {}",
    ])
    func processWithoutMemoryLosesNoRow(of hungry: String) throws {
        let source = "function (doc) { if (doc === 3) { \(hungry) } emit(doc, 0); }"
        for _ in 0..<4 {
            let child = try ScriptChild(memoryMebibytes: 64)
            #expect(try child.define(1, source).isDefined)
            #expect(try child.define(2, "function (doc) { emit(doc, 0); }").isDefined)
            let first = try child.map([1], (0..<5).map(String.init))
            guard first.finished == [1] else {
                #expect(first.executing == [1] && child.end() != nil)
                continue
            }
            let rows = first.pairs(1).filter { $0 != "3=0" }
            #expect(rows == ["0=0", "1=0", "2=0", "4=0"])
            let next = try child.map([2], (0..<5).map(String.init))
            if next.finished == [2] {
                #expect(next.pairs(2) == ["0=0", "1=0", "2=0", "3=0", "4=0"])
            } else {
                // It may notice only while it executes: then the node calls the function again, apart.
                #expect(next.finished.isEmpty && next.rows.isEmpty, "\(next)")
                let isFailing = next.executing == [2] && !next.isRetiring
                #expect(isFailing || next.isRetiring && next.executing.isEmpty, "\(next)")
                #expect(child.end() == (isFailing ? 70 : 0))
            }
        }
    }

    @Test func processEndsWhenTheNodeClosesItsSocket() throws {
        let child = try ScriptChild()
        child.closeSending()
        #expect(child.end() == 0)
    }

    @Test func invalidFrameEndsTheProcess() throws {
        for bytes: [UInt8] in [[0, 0, 0, 5, 0xff, 0, 0, 0, 1], [0xff, 0xff, 0xff, 0xff, 1]] {
            let child = try ScriptChild()
            bytes.withUnsafeBytes { child.send(ByteView($0)) }
            #expect(child.end() == 65)
        }
    }

    @Test func largestDocumentIsMapped() throws {
        let child = try ScriptChild(memoryMebibytes: 256)
        #expect(try child.define(1, "function (doc) { emit(doc.length, null); }").isDefined)
        let text = String(repeating: "x", count: 20 << 20)
        let answer = try child.map([1], ["\"\(text)\"", "\"y\""])
        #expect(answer.pairs() == ["20971520=null", "1=null"])
    }

    @Test(arguments: [
        (["--help"], 0, "divan-server, which starts this program"),
        ([], 64, "descriptor 3 is not a socket. divan-server starts this program"),
        (["--memory", "4"], 64, "usage: divan-script"), (["--fast"], 64, "usage: divan-script"),
    ])
    func programRunByHandPrintsItsPurpose(arguments: [String], status: Int32, text: String) throws {
        let output = Pipe()
        let writer = output.fileHandleForWriting
        let pid = try ScriptChild.spawn(
            arguments,
            descriptor: nil,
            standardOutput: writer.fileDescriptor
        )
        try writer.close()
        let written = try output.fileHandleForReading.readToEnd() ?? Data()
        #expect(ScriptChild.end(of: pid) == status)
        #expect(String(decoding: written, as: UTF8.self).contains(text))
    }
}
