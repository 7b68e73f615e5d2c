use super::*;

const BODY: &str = r#"hal.executable.variant public @v target(<"a", "b">) {
  builtin.module {
    func.func @f() {
      %c32_i64 = arith.constant 32 : i64
      %0 = hal.interface.constant.load layout(<constants = 4>) ordinal(0) : i32
      %1 = hal.interface.constant.load layout(<constants = 4>) ordinal(1) : i32
      %2 = hal.interface.constant.load layout(<constants = 4>) ordinal(2) : i32
      %4 = arith.extui %0 : i32 to i64
      %5 = arith.extui %1 : i32 to i64
      %6 = arith.shli %5, %c32_i64 : i64
      %7 = arith.ori %4, %6 : i64
      %8 = arith.index_castui %7 : i64 to index
      %9 = arith.index_cast %2 : i32 to index
      %14:2 = util.assume.int
          %8<umin = 0, umax = 9007199254740991>,
          %9<umin = 1, umax = 1000, udiv = 4>
        : index, index
      %15 = iree_tensor_ext.dispatch.workload.ordinal %14#0, 0 : index
      %16 = iree_tensor_ext.dispatch.workload.ordinal %14#1, 1 : index
      return
    }
  }
}
"#;

/// The workgroups that are needed with this region, over the workload %arg1 and %arg2.
fn needed(region: &str) -> NeededWorkgroups {
    let export = format!(
        "  hal.executable.export public @f ordinal(0) layout(#hal<constants = 4>) count(%arg0: !hal.device, %arg1: index, \
         %arg2: index) -> (index, index, index) {{\n{region}\n  }} <workgroup_size = [1 : index]>\n"
    );
    let mut found = needed_workgroups(BODY, &format!("hal.executable.variant public @v {{\n{export}}}\n"));
    assert_eq!((found.len(), found[0].0.as_str()), (1, "f"));
    found.remove(0).1
}

fn count(region: &str, constants: [u32; 3]) -> Result<[u32; 3], String> {
    let constants: Vec<u8> = constants.iter().flat_map(|it| it.to_le_bytes()).collect();
    let count = needed(region).count(&constants, false).map_err(|error| error.message().to_owned())?;
    Ok(count.unwrap())
}

#[test]
fn counts_are_computed_from_the_constants_of_the_workload() {
    let expanded = "    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %0 = arith.cmpi sle, %arg1, %c0 : index
    %1 = arith.subi %c0, %arg1 : index
    %2 = arith.subi %arg1, %c1 : index
    %3 = arith.select %0, %1, %2 : index
    %4 = arith.divsi %3, %c8 : index
    %5 = arith.subi %c0, %4 : index
    %6 = arith.addi %4, %c1 : index
    %7 = arith.select %0, %5, %6 : index
    %8 = arith.muli %7, %c4 overflow<nsw> : index
    hal.return %8, %arg2, %c1 : index, index, index";
    assert_eq!(count(expanded, [40, 0, 7]), Ok([20, 7, 1]));
    assert_eq!(count(expanded, [41, 0, 1]), Ok([24, 1, 1]));
    assert_eq!(count(expanded, [0, 0, 1]), Ok([0, 1, 1]));
    assert_eq!(count(expanded, [0, 1, 1]), Ok([1 << 31, 1, 1]));
    assert!(count(expanded, [0, 2, 1]).unwrap_err().contains("4294967296x1x1"));
    assert!(count(expanded, [0, 0, 0]).unwrap_err().contains("bounds that exclude 0"));
    let maps = "    %c1 = arith.constant 1 : index
    %0 = affine.min affine_map<()[s0, s1] -> (s1 * (s0 ceildiv 32), 50)>()[%arg1, %arg2]
    %1 = affine.apply affine_map<(d0) -> (d0 + 1)>(%arg2)
    hal.return %0, %1, %c1 : index, index, index";
    assert_eq!(count(maps, [65, 0, 5]), Ok([15, 6, 1]));
    assert_eq!(count(maps, [650, 0, 5]), Ok([50, 6, 1]));
    let narrow = "    %c1 = arith.constant 1 : index
    %0 = arith.index_cast %arg1 : index to i32
    %c-3_i32 = arith.constant -3 : i32
    %1 = arith.addi %0, %c-3_i32 : i32
    %2 = arith.maxui %1, %0 : i32
    %3 = arith.index_castui %2 : i32 to index
    hal.return %3, %c1, %c1 : index, index, index";
    assert_eq!(count(narrow, [2, 0, 1]), Ok([u32::MAX, 1, 1]));
    assert_eq!(count(narrow, [9, 0, 1]), Ok([9, 1, 1]));
}

/// Without it, an operation may be computed as another, and too few workgroups run.
#[test]
fn operations_are_those_of_32_bit_integers() {
    type Operation = fn(i32, i32) -> i32;
    let operations: [(&str, Operation); 30] = [
        ("addi", |a, b| a + b),
        ("subi", |a, b| a - b),
        ("muli", |a, b| a * b),
        ("divsi", |a, b| a / b),
        ("divui", |a, b| (a as u32 / b as u32) as i32),
        ("remsi", |a, b| a % b),
        ("remui", |a, b| (a as u32 % b as u32) as i32),
        ("ceildivsi", |a, b| (f64::from(a) / f64::from(b)).ceil() as i32),
        ("ceildivui", |a, b| (a as u32).div_ceil(b as u32) as i32),
        ("floordivsi", |a, b| (f64::from(a) / f64::from(b)).floor() as i32),
        ("minsi", |a, b| a.min(b)),
        ("minui", |a, b| (a as u32).min(b as u32) as i32),
        ("maxsi", |a, b| a.max(b)),
        ("maxui", |a, b| (a as u32).max(b as u32) as i32),
        ("andi", |a, b| a & b),
        ("ori", |a, b| a | b),
        ("xori", |a, b| a ^ b),
        ("shli", |a, b| a << b),
        ("shrsi", |a, b| a >> b),
        ("shrui", |a, b| (a as u32 >> b) as i32),
        ("cmpi eq", |a, b| (a == b).into()),
        ("cmpi ne", |a, b| (a != b).into()),
        ("cmpi slt", |a, b| (a < b).into()),
        ("cmpi sle", |a, b| (a <= b).into()),
        ("cmpi sgt", |a, b| (a > b).into()),
        ("cmpi sge", |a, b| (a >= b).into()),
        ("cmpi ult", |a, b| ((a as u32) < b as u32).into()),
        ("cmpi ule", |a, b| (a as u32 <= b as u32).into()),
        ("cmpi ugt", |a, b| (a as u32 > b as u32).into()),
        ("cmpi uge", |a, b| (a as u32 >= b as u32).into()),
    ];
    for (name, operation) in operations {
        for (a, b) in [(-7, 2), (7, 2), (2, 7), (5, 5)] {
            let (name, result) = match name.starts_with("cmpi") {
                true => (format!("{name},"), "i1"),
                false => (name.to_owned(), "i32"),
            };
            let region = format!(
                "    %c1 = arith.constant 1 : index
    %a = arith.constant {a} : i32
    %b = arith.constant {b} : i32
    %0 = arith.{name} %a, %b : i32
    %1 = arith.index_castui %0 : {result} to index
    hal.return %1, %c1, %c1 : index, index, index"
            );
            assert_eq!(count(&region, [0, 0, 1]), Ok([operation(a, b) as u32, 1, 1]), "{name} {a} {b}");
        }
    }
}

#[test]
fn constant_counts_do_not_need_the_workload() {
    let constant = "    %c4 = arith.constant 4 : index\n    %c1 = arith.constant 1 : index\n    hal.return %c4, %c1, %c1 : index, index, index";
    assert_eq!(needed(constant).constant(), Some([4, 1, 1]));
    let without = needed_workgroups(
        "",
        "hal.executable.export public @g ordinal(0) count(%a: !hal.device) -> (index) {\n    %c1 = arith.constant 1 : index\n    hal.return %c1, %c1, %c1 : index\n}\n",
    );
    assert_eq!((without[0].0.as_str(), without[0].1.constant()), ("g", Some([1, 1, 1])));
}

/// Nothing is guessed.
#[test]
fn what_is_not_understood_is_not_known() {
    let one = "    %c1 = arith.constant 1 : index\n";
    for (region, why) in [
        (
            "    %0 = math.ctpop %arg1 : index\n    hal.return %0, %0, %0 : index, index, index",
            "'math.ctpop'",
        ),
        (
            "    %0 = scf.if %arg1 -> (index) {\n    }\n    hal.return %0, %0, %0 : index, index, index",
            "'scf.if'",
        ),
        ("    hal.return %5, %5, %5 : index, index, index", "%5, which is not one value"),
        (
            "    %c1 = arith.constant 2 : index\n    hal.return %c1, %c1, %c1 : index, index, index",
            "not one value",
        ),
        ("    hal.return %c1 : index", "three numbers"),
        ("    %0 = arith.extsi %arg1 : i32 to i64\n    hal.return %0, %c1, %c1 : index", "'arith.extsi'"),
        ("    %0 = arith.addi %0, %c1 : index\n    hal.return %0, %c1, %c1 : index", "defined after its use"),
    ] {
        let needed = needed(&format!("{one}{region}"));
        assert!(matches!(&needed, NeededWorkgroups::Unknown(it) if it.contains(why)), "{needed:?}");
    }
    // The value of the workload is not a constant of the dispatch.
    let two = "    hal.return %arg1, %arg1, %arg1 : index, index, index";
    let export = format!(
        "hal.executable.export public @f ordinal(0) count(%arg0: !hal.device, %arg1: index) {{\n{two}\n}}\n"
    );
    let unread = BODY.replace("%14#0, 0 : index", "%14#0, 3 : index");
    assert!(
        matches!(&needed_workgroups(&unread, &export)[0].1, NeededWorkgroups::Unknown(it) if it.contains("value 0 of the workload"))
    );
    let division = "    %c0 = arith.constant 0 : index\n    %0 = arith.divui %arg1, %c0 : index\n    hal.return %0, %c0, %c0 : index";
    assert!(count(division, [1, 0, 1]).unwrap_err().contains("divides by zero"));
}

#[test]
fn damaged_text_is_read_to_its_end() {
    let text = format!(
        "{BODY}  hal.executable.export public @f count(%a: !hal.device, %b: index) {{\n  %0 = affine.min affine_map<()[s0] -> (s0)>()[%b]\n hal.return %0, %0, %0 : index\n}}\n"
    );
    for end in 0..text.len() {
        needed_workgroups(&text[..end], &text[..end]);
        needed_workgroups(BODY, &text[..end]);
        needed_workgroups(&text[..end], &text);
    }
}

/// Of a region with branches, no return is the count.
#[test]
fn branches_and_several_targets_are_not_known() {
    let two = "    %c1 = arith.constant 1 : index
    cf.cond_br %b, ^bb1, ^bb2
  ^bb1:
    hal.return %c1, %c1, %c1 : index, index, index
  ^bb2:
    hal.return %arg1, %c1, %c1 : index, index, index";
    assert!(count(two, [4, 0, 4]).unwrap_err().contains("by branches"));
    let region = "hal.return %arg1, %arg1, %arg1 : index, index, index";
    assert_eq!(count(region, [4, 0, 4]), Ok([4, 4, 4]));
    let export = format!(
        "  hal.executable.export public @f ordinal(0) layout(#hal<constants = 4>) count(%arg0: !hal.device, %arg1: index) \
         -> (index, index, index) {{\n{region}\n  }}\n"
    );
    let found = needed_workgroups(
        &[BODY, BODY].concat(),
        &format!("hal.executable.variant public @v {{\n{export}}}\n"),
    );
    assert!(
        matches!(&found[0].1, NeededWorkgroups::Unknown(why) if why.contains("several targets")),
        "{found:?}"
    );
}
